/**
 * Watching keys, and prefixes, for long polls, rendezvous and event streams: one set of watches per key or prefix and replica (`observers.ts`).
 *
 * A key is watched by a data watch, or, while there is no such znode, by one that fires when it appears: a change costs one
 * notification and one reading per replica, however many wait for it.
 *
 * A prefix is watched by one persistent, recursive watch on the deepest directory that it names. Every event tells of one znode, which is read
 * again on the same connection, so at least as new. What a lost connection made it miss is found by reading all again (`reset`).
 */
import { PosternError } from '../../errors.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { unless } from '../../zookeeper/errors.js';
import type { WatchEvent } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import { Observers, type Look, type LookResult, type Observed } from '../observers.js';
import { decodeNode, type ConfigValue } from './entry.js';
import { summaryOf, walkKeys, type KeySummary } from './view.js';

export interface KeyState extends Observed {
  /** Undefined: there is no such key; then the etag is empty. */
  value: ConfigValue | undefined;
}

export type KeyChange = { key: string; now: KeySummary | undefined };

export interface PrefixState extends Observed {
  /** All keys of the prefix. Undefined when there are more than can be watched. */
  keys: ReadonlyMap<string, KeySummary> | undefined;
  /** What is different from the state before. */
  changes: readonly KeyChange[];
}

/** So many summaries are kept, and sent at the begin of a stream: 2 MB. */
export const PREFIX_KEYS_MAX = 10_000;
const READ_MS = 10_000;

type Context = Pick<Coordination, 'control' | 'layout'>;

interface Prefix {
  namespace: string;
  prefix: string;
}

/** Of all keys and prefixes of one replica. */
export class ConfigObservers {
  readonly #context: Context;
  readonly #keys: Observers<undefined, KeyState>;
  readonly #prefixes: Observers<Prefix, PrefixState>;

  constructor(context: Context) {
    this.#context = context;
    this.#keys = new Observers(context.control, (path, _, look) => lookAtKey(context.control, path, look));
    this.#prefixes = new Observers(context.control, (_, subject, look) => new PrefixLook(context, subject, look).run());
  }

  get size(): number {
    return this.#keys.size + this.#prefixes.size;
  }

  /** Calls `subscriber` with the state of the key as soon as it is known, and with every change, until the returned function is called. */
  subscribeKey(path: string, subscriber: (state: KeyState) => void): () => void {
    return this.#keys.subscribe(path, undefined, subscriber);
  }

  /** Resolves with the first state that is wanted, or undefined at the deadline or when the signal is aborted. */
  untilKey(
    path: string,
    wanted: (state: KeyState) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<KeyState | undefined> {
    return this.#keys.until(path, undefined, wanted, deadline, signal);
  }

  /** As `subscribeKey`, of all keys that begin with the prefix. */
  subscribePrefix(namespace: string, prefix: string, subscriber: (state: PrefixState) => void): () => void {
    const root = this.#context.layout.config(namespace);
    // No name holds a '?': observers of different prefixes in one directory are different.
    return this.#prefixes.subscribe(`${root}?${prefix}`, { namespace, prefix }, subscriber);
  }
}

async function lookAtKey(control: ControlSession, path: string, look: Look<KeyState>): Promise<LookResult> {
  const { value: node, watch } = await control.watches.getData(path, look.wake, look.deadline);
  look.keep(watch);
  if (node === undefined) {
    const absent = await control.watches.exists(path, look.wake, look.deadline);
    look.keep(absent.watch);
    if (absent.value !== undefined) return 'again';
  }
  const value = node === undefined ? undefined : decodeNode(node).value;
  look.publish({ etag: value?.etag ?? '', value });
  return 'wait';
}

class PrefixLook {
  readonly #context: Context;
  readonly #subject: Prefix;
  readonly #look: Look<PrefixState>;
  /** Below the chroot: of the keys. */
  readonly #root: string;
  #keys: Map<string, KeySummary>;
  /** Keys to be read again. */
  #dirty = new Set<string>();
  #reset = true;
  /** Of the states so far. */
  #number: number;
  #wake = (): void => undefined;

  constructor(context: Context, subject: Prefix, look: Look<PrefixState>) {
    this.#context = context;
    this.#subject = subject;
    this.#look = look;
    this.#root = context.layout.config(subject.namespace);
    this.#keys = new Map(look.known?.keys ?? []);
    this.#number = Number(look.known?.etag ?? 0);
  }

  /** As long as anybody looks, or until it fails. */
  async run(): Promise<LookResult> {
    const { prefix } = this.#subject;
    const { signal } = this.#look;
    const directory = prefix.includes('/') ? `${this.#root}/${prefix.slice(0, prefix.lastIndexOf('/'))}` : this.#root;
    const { watches } = this.#context.control;
    const onEvent = (event: WatchEvent): void => this.#take(event);
    this.#look.keep(await watches.persistent(directory, 'persistent-recursive', onEvent, this.#look.deadline));
    const onAbort = (): void => this.#wake();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      while (!signal.aborted) {
        const woken = new Promise<void>((resolve) => (this.#wake = resolve));
        if (this.#reset) await this.#readAll();
        else if (this.#dirty.size > 0) await this.#readDirty();
        if (!this.#reset && this.#dirty.size === 0) await woken;
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
    return 'wait';
  }

  #take({ type, path }: WatchEvent): void {
    const relative = this.#context.control.relative(path);
    if (type === 'reset') this.#reset = true;
    else if (relative.startsWith(`${this.#root}/`)) this.#dirty.add(relative.slice(this.#root.length + 1));
    this.#wake();
  }

  async #readAll(): Promise<void> {
    const { namespace, prefix } = this.#subject;
    this.#reset = false;
    this.#dirty = new Set();
    const before = this.#keys;
    const keys = new Map<string, KeySummary>();
    try {
      const complete = await walkKeys(
        this.#context,
        namespace,
        { prefix, after: undefined },
        performance.now() + READ_MS,
        (key, value) => {
          keys.set(key, summaryOf(key, value));
          return keys.size <= PREFIX_KEYS_MAX;
        },
      );
      this.#keys = keys;
      const gone = [...before.keys()].filter((key) => !keys.has(key));
      const changed = [...keys.values()].filter(({ key, etag }) => before.get(key)?.etag !== etag);
      this.#publish(complete, [
        ...changed.map((now) => ({ key: now.key, now })),
        ...gone.map((key) => ({ key, now: undefined })),
      ]);
    } catch (error) {
      this.#reset = true;
      throw error;
    }
  }

  async #readDirty(): Promise<void> {
    const { control, layout } = this.#context;
    const { namespace, prefix } = this.#subject;
    const dirty = [...this.#dirty].filter((key) => key.startsWith(prefix));
    this.#dirty = new Set();
    const deadline = performance.now() + READ_MS;
    const nodes = await Promise.all(
      dirty.map((key) => unless(control.getData(layout.configKey(namespace, key), deadline), 'NO_NODE')),
    );
    const changes: KeyChange[] = [];
    for (const [i, node] of nodes.entries()) {
      const key = dirty[i] as string;
      const value = node === undefined ? undefined : decodeNode(node).value;
      const now = value === undefined ? undefined : summaryOf(key, value);
      if (now?.etag === this.#keys.get(key)?.etag) continue;
      if (now === undefined) this.#keys.delete(key);
      else this.#keys.set(key, now);
      changes.push({ key, now });
    }
    if (changes.length > 0) this.#publish(this.#keys.size <= PREFIX_KEYS_MAX, changes);
  }

  #publish(complete: boolean, changes: readonly KeyChange[]): void {
    // The first state is told also when it is empty, and a later one when nothing was missed is not.
    if (this.#number > 0 && complete && changes.length === 0) return;
    this.#number += 1;
    this.#look.publish({ etag: String(this.#number), keys: complete ? this.#keys : undefined, changes });
  }
}

/** What a stream of too many keys ends with. */
export function tooManyKeys(prefix: string): PosternError {
  return new PosternError(
    'invalid',
    `More than ${PREFIX_KEYS_MAX} keys begin with "${prefix}"; watch a longer prefix.`,
    { members: { field: 'prefix', in: 'query', maxKeys: PREFIX_KEYS_MAX } },
  );
}
