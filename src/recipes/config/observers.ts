/**
 * Observes keys and prefixes, for long polls, rendezvous and event streams: one set of watches per key or prefix and
 * replica (`observing/observers.ts`).
 *
 * A key is watched as one node: a change costs one notification and one reading per replica, however many clients wait.
 *
 * Prefixes are watched by one recursive watch on the deepest directory that they name. Its keys are cached once for all
 * of them: those under the smallest set of prefixes that covers everything watched there.
 */
import type { PosternError } from '../../errors.js';
import { coverOf, prefixIn } from '../../prefixes.js';
import { lookAtNode, lookAtTree, type TreeReading } from '../observing/looks.js';
import { Observers, type Look, type LookResult, type Observed, type Subject } from '../observing/observers.js';
import type { Watched } from '../observing/watched.js';
import { decodeNode, type ConfigValue } from './entry.js';
import type { KeySummary } from './summaries.js';
import { parentKeyOf, walkKeys, type ListContext } from './view.js';
import { PREFIX_KEYS_MAX, tooManyKeys, WatchedPrefixes } from './watched-prefixes.js';

/** A key that is watched, without its name. */
export interface WatchedValue extends Omit<KeySummary, 'key'> {
  /** Undefined where it is larger: as long as somebody watches, it is kept. */
  shown: Buffer | undefined;
}

export interface KeyState extends Observed {
  /** Undefined: there is no such key. */
  value: WatchedValue | undefined;
}

/** Larger values are left out of events: a reader may only fall so far behind, and may not want them. */
const VALUE_IN_EVENT_MAX = 16 * 1024;

/** Stands for the ETag of a key that does not exist. */
export const ABSENT = '"absent"';

export interface KeyChange {
  readonly key: string;
  /** Undefined: it is deleted. */
  readonly now: KeySummary | undefined;
  /** It was not there before. */
  readonly isNew: boolean;
}

export interface PrefixState extends Observed {
  /** All keys that begin with one of `cover`. */
  keys: ReadonlyMap<string, KeySummary>;
  cover: readonly string[];
  /** A prefix with more keys than can be watched, and the error that ends its streams. The others go on without it. */
  refused: { prefix: string; error: PosternError } | undefined;
  /** The differences from the previous state. */
  changes: readonly KeyChange[];
}

/** What one subscriber is told. */
export interface PrefixTold extends Omit<PrefixState, 'refused'> {
  /** Why it is told nothing more. */
  readonly refused: PosternError | undefined;
}

interface PrefixSubject {
  /** The deepest directory of the prefixes. */
  path: string;
  watched: WatchedPrefixes;
}

function watchedValue({ etag, contentType, bytes, modifiedAt }: ConfigValue): WatchedValue {
  const { length } = bytes;
  return { etag, contentType, bytes: length, modifiedAt, shown: length <= VALUE_IN_EVENT_MAX ? bytes : undefined };
}

/** The observers of all keys and prefixes in one replica. */
export class ConfigObservers {
  readonly #context: ListContext;
  readonly keys: Observers<Subject, KeyState>;
  readonly #prefixes: Observers<PrefixSubject, PrefixState>;
  readonly #kept: Watched;
  /** By the path of the directory. */
  readonly #watched = new Map<string, WatchedPrefixes>();

  /** @param kept counts the keys of all prefixes */
  constructor(context: ListContext, kept: Watched) {
    this.#context = context;
    this.#kept = kept;
    this.keys = new Observers(
      context.control,
      lookAtNode(context.control, (_, { value: node }) => {
        const value = node === undefined ? undefined : decodeNode(node).value;
        return value === undefined ? { etag: ABSENT, value } : { etag: `"${value.etag}"`, value: watchedValue(value) };
      }),
    );
    this.#prefixes = new Observers(context.control, (subject, look) =>
      new PrefixLook({ ...context, kept }, subject, look).run(),
    );
  }

  get size(): number {
    return this.keys.size + this.#prefixes.size;
  }

  /**
   * Calls `subscriber` with all keys under the prefixes, possibly along with others, as soon as they are known, and
   * with every change, until the returned function is called or it was told why not.
   *
   * @param prefixes of one directory (`parentKeyOf`)
   * @param principal whose part of what is watched the keys are
   */
  subscribePrefixes(
    namespace: string,
    prefixes: readonly string[],
    principal: string,
    subscriber: (state: PrefixTold) => void,
  ): () => void {
    const { layout } = this.#context;
    const directory = parentKeyOf(prefixes[0] as string);
    const path = directory === '' ? layout.config(namespace) : layout.configKey(namespace, directory);
    const watched = this.#watched.get(path) ?? new WatchedPrefixes(namespace);
    this.#watched.set(path, watched);
    watched.add(prefixes);
    const share = this.#kept.share(principal);
    const cover = coverOf(prefixes);
    /** As told last. The observer writes to it only while it tells this subscriber of each change. */
    let told: ReadonlyMap<string, KeySummary> | undefined;
    /** The observer has read without these prefixes since: its differences are not from what was told here. */
    let hasMissed = false;
    const unsubscribe = this.#prefixes.subscribe({ path, watched }, (state) => {
      const isRefused = state.refused !== undefined && prefixes.includes(state.refused.prefix);
      if (!isRefused && !prefixes.every((one) => prefixIn(state.cover, one) !== undefined)) {
        hasMissed = true;
        return;
      }
      const changes = hasMissed && told !== undefined ? changesBetween(told, state.keys, cover) : state.changes;
      const grown = grownBy({ ...state, changes }, told === undefined, cover);
      const error = isRefused ? state.refused?.error : share.take(grown);
      hasMissed = false;
      told = state.keys;
      subscriber({ ...state, changes, refused: error });
    });
    let subscribed = true;
    return () => {
      if (!subscribed) return;
      subscribed = false;
      unsubscribe();
      share.close();
      watched.remove(prefixes);
      if (watched.size === 0) this.#watched.delete(path);
    };
  }
}

/** What differs of the keys under the prefixes. */
function changesBetween(
  before: ReadonlyMap<string, KeySummary>,
  keys: ReadonlyMap<string, KeySummary>,
  cover: readonly string[],
): KeyChange[] {
  const changes: KeyChange[] = [];
  for (const [key, now] of keys)
    if (prefixIn(cover, key) !== undefined && before.get(key)?.etag !== now.etag)
      changes.push({ key, now, isNew: !before.has(key) });
  for (const key of before.keys())
    if (prefixIn(cover, key) !== undefined && !keys.has(key)) changes.push({ key, now: undefined, isNew: false });
  return changes;
}

/** By how many keys under the prefixes the state has more than the one before. */
function grownBy({ keys, changes }: PrefixState, isFirst: boolean, cover: readonly string[]): number {
  let more = 0;
  if (isFirst) for (const key of keys.keys()) more += prefixIn(cover, key) === undefined ? 0 : 1;
  else
    for (const { key, now, isNew } of changes)
      if ((now === undefined || isNew) && prefixIn(cover, key) !== undefined) more += now === undefined ? -1 : 1;
  return more;
}

class PrefixLook {
  readonly #context: ListContext & { kept: Watched };
  readonly #subject: PrefixSubject;
  readonly #look: Look<PrefixState>;
  /** Below the chroot: of the keys. */
  readonly #root: string;
  #keys: Map<string, KeySummary>;
  /** What `#keys` are of. */
  #cover: readonly string[];
  /** Of `#keys`, taken from what the replica has. */
  #taken = 0;
  /** Of the states so far. */
  #number: number;

  constructor(context: ListContext & { kept: Watched }, subject: PrefixSubject, look: Look<PrefixState>) {
    this.#context = context;
    this.#subject = subject;
    this.#look = look;
    this.#root = context.layout.config(subject.watched.namespace);
    this.#keys = new Map(look.known?.keys ?? []);
    this.#cover = look.known?.cover ?? [];
    this.#number = Number(look.known?.etag ?? 0);
  }

  /** Runs while there are subscribers, or until it fails. */
  async run(): Promise<LookResult> {
    const { path, watched } = this.#subject;
    const { control, kept } = this.#context;
    try {
      return await lookAtTree(control, path, this.#look, async ({ changed, zk, again }) => {
        watched.onChange = again;
        await (changed === undefined ? this.#readAll(zk.deadline) : this.#readChanged({ changed, zk, again }));
        // What was published has the keys, which the next reading changes.
        await this.#look.told();
      });
    } finally {
      void kept.take(0, this.#taken);
    }
  }

  async #readAll(deadline: number): Promise<void> {
    const { namespace, cover } = this.#subject.watched;
    const before = this.#keys;
    const keys = new Map<string, KeySummary>();
    const counts = new Map<string, number>();
    let refused: PrefixState['refused'];
    const walk = { prefixes: cover, after: undefined, shows: () => true };
    await walkKeys(this.#context, namespace, walk, deadline, (key, summary) => {
      if (summary === undefined) return true;
      const prefix = prefixIn(cover, key) as string;
      const count = (counts.get(prefix) ?? 0) + 1;
      counts.set(prefix, count);
      let error = count > PREFIX_KEYS_MAX ? tooManyKeys(prefix) : undefined;
      if (keys.size >= this.#taken) error ??= this.#keep(keys.size + 1);
      if (error === undefined) keys.set(key, summary);
      else refused = { prefix, error };
      return error === undefined;
    });
    // The subscribers of that prefix leave, and then the others are read again: until then their state stays.
    void this.#keep(refused === undefined ? keys.size : before.size);
    if (refused !== undefined) return this.#publish([], refused);
    const isNew = cover !== this.#cover;
    this.#keys = keys;
    this.#cover = cover;
    const gone = [...before.keys()].filter((key) => !keys.has(key));
    const changed = [...keys.values()].filter(({ key, etag }) => before.get(key)?.etag !== etag);
    const changes = [
      ...changed.map((now) => ({ key: now.key, now, isNew: !before.has(now.key) })),
      ...gone.map((key) => ({ key, now: undefined, isNew: false })),
    ];
    // The first state is told also when it is empty, and a later one when nothing was missed is not.
    if (isNew || changes.length > 0) this.#publish(changes);
  }

  async #readChanged({ changed, zk, again }: TreeReading & { changed: readonly string[] }): Promise<void> {
    const dirty = changed
      .filter((path) => path.startsWith(`${this.#root}/`))
      .map((path) => path.slice(this.#root.length + 1))
      .filter((key) => prefixIn(this.#cover, key) !== undefined);
    const read = await Promise.all(dirty.map((key) => this.#read(key, zk.deadline)));
    const changes: KeyChange[] = [];
    const grown = new Set<string>();
    for (const [i, now] of read.entries()) {
      const key = dirty[i] as string;
      const known = this.#keys.get(key);
      if (now?.etag === known?.etag) continue;
      if (known === undefined) grown.add(prefixIn(this.#cover, key) as string);
      if (now === undefined) this.#keys.delete(key);
      else this.#keys.set(key, now);
      changes.push({ key, now, isNew: known === undefined });
    }
    // Read again, it is found which prefix has too many.
    if (this.#keep(this.#keys.size) !== undefined) again();
    const full = [...grown].find((prefix) => this.#hasTooMany(prefix));
    const refused = full === undefined ? undefined : { prefix: full, error: tooManyKeys(full) };
    if (changes.length > 0) this.#publish(changes, refused);
  }

  #hasTooMany(prefix: string): boolean {
    if (this.#keys.size <= PREFIX_KEYS_MAX) return false;
    let count = 0;
    for (const key of this.#keys.keys()) if (key.startsWith(prefix)) count += 1;
    return count > PREFIX_KEYS_MAX;
  }

  async #read(key: string, deadline: number): Promise<KeySummary | undefined> {
    const { control, layout, summaries } = this.#context;
    const path = layout.configKey(this.#subject.watched.namespace, key);
    const stat = await control.exists(path, deadline);
    return stat === undefined ? undefined : summaries.read(path, key, stat, deadline);
  }

  /** @returns why the replica has no room for so many, if it has none */
  #keep(count: number): PosternError | undefined {
    const refused = this.#context.kept.take(count, this.#taken);
    if (refused === undefined) this.#taken = count;
    return refused;
  }

  #publish(changes: readonly KeyChange[], refused?: PrefixState['refused']): void {
    this.#number += 1;
    this.#look.publish({ etag: String(this.#number), keys: this.#keys, cover: this.#cover, changes, refused });
  }
}
