/**
 * `GET /v1/events`, and lists as streams: one stream of many things of many kinds.
 *
 *   entries ─▶ `lock:backup` ─────────────────────────────▶ the observer of that thing ──┐
 *           ├▶ `lock:app-*` ─▶ the names in the directory ─▶ the observer of each name ──┼─▶ ManyThings ─▶ events
 *           └▶ `config:app/*` ─▶ the observer of the prefix ─────────────────────────────┘
 *
 * Each thing is observed once in a replica, however many streams tell of it, and by the same observer as its own stream
 * (`recipes/observing`). The rights of the caller are checked for each name before it is told of, so that the stream
 * ends when its credential may read one of them no more.
 */
import { InvalidError } from '../../errors.js';
import { DEFAULT_NAMESPACE } from '../../leases/layout.js';
import type { Leases } from '../../leases/leases.js';
import type { ConfigObservers } from '../../recipes/config/observers.js';
import type { NamesRecipe } from '../../recipes/names/recipe.js';
import type { EventStream, Exchange, Handler, Routes } from '../frame/exchange.js';
import { describeKey } from './config-streams.js';
import { ManyThings, type Thing } from './many-things.js';
import type { Building } from './shared/serving.js';
import { subscribedStream } from './shared/state-stream.js';
import { namespaceOf } from './shared/subject.js';
import type { Watchable, Watchables } from './shared/watchable.js';

const CONFIG = 'config';
const KEY = /^(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]{1,200}(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]{1,200}){0,31}$/;
const NAME = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/;
const PREFIX = /^[A-Za-z0-9._~-]{0,200}$/;
const KEY_PREFIX = /^[A-Za-z0-9._~/-]{0,1024}$/;

/** One thing, or all whose names begin with something. */
interface Entry extends Thing {
  readonly isPrefix: boolean;
}

interface Asked {
  readonly things: ManyThings;
  readonly exchange: Exchange;
  readonly namespace: string;
}

/** The lists that are streams as well, by operation, with their kinds; that of the configuration is its own. */
const LISTS: Readonly<Record<string, string>> = {
  listLocks: 'lock',
  listReadWriteLocks: 'rwlock',
  listSemaphores: 'semaphore',
  listElections: 'election',
  listGroups: 'group',
  listBarriers: 'barrier',
  listDoubleBarriers: 'double-barrier',
  listQueues: 'queue',
  listCounters: 'counter',
};

export function eventRoutes(building: Building): Routes {
  const { watchables } = building;
  const streams = new Streams(building);
  return {
    watchMany: async (exchange) =>
      streams.open(exchange, exchange.namespace ?? DEFAULT_NAMESPACE, entriesOf(exchange, watchables)),
  };
}

/** Answers the requests for lists that want events. */
export function withStreams(routes: Routes, building: Building): Routes {
  const streams = new Streams(building);
  const streamed = Object.entries(LISTS).map(([operation, kind]): [string, Handler] => {
    const list = routes[operation] as Handler;
    return [operation, async (exchange) => (exchange.wantsEvents ? streams.openList(exchange, kind) : list(exchange))];
  });
  return { ...routes, ...Object.fromEntries(streamed) };
}

class Streams {
  readonly #leases: Leases;
  readonly #watchables: Watchables;
  readonly #names: NamesRecipe;
  readonly #config: ConfigObservers;

  constructor({ context, recipes, watchables }: Building) {
    this.#leases = context.leases;
    this.#watchables = watchables;
    this.#names = recipes.names;
    this.#config = recipes.config.observers;
  }

  async openList(exchange: Exchange, kind: string): Promise<EventStream> {
    const { prefix = '' } = exchange.query as { prefix?: string };
    const namespace = await namespaceOf(exchange, this.#leases);
    return this.open(exchange, namespace, [{ kind, name: prefix, isPrefix: true }]);
  }

  open(exchange: Exchange, namespace: string, entries: readonly Entry[]): EventStream {
    for (const { kind, name, isPrefix } of entries)
      exchange.authorize('read', namespace, isPrefix ? { kind } : { kind, name });
    return subscribedStream(exchange, (sink, fail) => {
      const things = new ManyThings(sink, this.#names.watched, fail);
      const asked = { things, exchange, namespace };
      const subscriptions = entries.map((entry) => this.#watch(asked, entry));
      things.listed();
      return () => {
        for (const unsubscribe of subscriptions) unsubscribe?.();
        things.close();
      };
    });
  }

  #watch(asked: Asked, entry: Entry): (() => void) | undefined {
    if (!entry.isPrefix) this.#watchOne(asked, entry, true);
    else return entry.kind === CONFIG ? this.#watchKeys(asked, entry.name) : this.#watchNames(asked, entry);
  }

  /** @param always tell of it also while it is not in use */
  #watchOne({ things, namespace }: Asked, { kind, name }: Thing, always: boolean): boolean {
    return things.watch({ kind, name }, (tell) =>
      this.#of(kind).subscribe(namespace, name, ({ etag, state, inUse }) =>
        tell(state !== undefined && (always || inUse) ? { etag, state } : undefined),
      ),
    );
  }

  /** The names in a directory, and what each is of: those that come are watched, and those that go are no more. */
  #watchNames(asked: Asked, { kind, name: prefix }: Entry): () => void {
    const { things, exchange, namespace } = asked;
    const path = this.#of(kind).pathOf(namespace, 'any');
    const directory = path.slice(0, path.lastIndexOf('/'));
    /** Those that are watched for this list alone. */
    const watched = new Set<string>();
    let isFirst = true;
    things.lists();
    return this.#names.observers.subscribe({ path: directory }, ({ names }) => {
      for (const name of watched) {
        if (names.has(name)) continue;
        watched.delete(name);
        things.forget({ kind, name });
      }
      for (const name of names) {
        if (!name.startsWith(prefix) || !exchange.allows('read', namespace, { kind, name })) continue;
        if (watched.has(name) || !this.#watchOne(asked, { kind, name }, false)) continue;
        watched.add(name);
        exchange.authorize('read', namespace, { kind, name });
      }
      if (isFirst) things.listed();
      isFirst = false;
    });
  }

  /** Keys are told without their values, as in the stream of their list. */
  #watchKeys({ things, exchange, namespace }: Asked, prefix: string): () => void {
    const isShown = (key: string): boolean =>
      key.startsWith(prefix) && exchange.allows('read', namespace, { kind: CONFIG, name: key });
    let isFirst = true;
    things.lists();
    return this.#config.subscribePrefix(namespace, prefix, ({ keys, changes, refused }) => {
      if (refused !== undefined && refused.prefix === prefix) return things.fail(refused.error);
      const told = isFirst ? [...keys.values()].map((now) => ({ key: now.key, now })) : changes;
      for (const { key, now } of told) {
        if (!isShown(key) || things.watches({ kind: CONFIG, name: key })) continue;
        things.tell({ kind: CONFIG, name: key }, now && { etag: now.etag, state: describeKey(now) });
      }
      if (isFirst) things.listed();
      isFirst = false;
    });
  }

  #of(kind: string): Watchable {
    return this.#watchables.get(kind) as Watchable;
  }
}

/** @throws InvalidError */
function entriesOf({ query }: Exchange, watchables: Watchables): Entry[] {
  const { watch } = query as { watch: string };
  const entries = watch.split(',').map((text) => entryOf(text, watchables));
  // Things that are named are told of also while they are not in use, so their lists leave them out.
  return [...entries.filter(({ isPrefix }) => !isPrefix), ...entries.filter(({ isPrefix }) => isPrefix)];
}

function entryOf(text: string, watchables: Watchables): Entry {
  const [kind = '', ...rest] = text.split(':');
  const isPrefix = text.endsWith('*');
  const name = rest.join(':').slice(0, isPrefix ? -1 : undefined);
  const isKey = kind === CONFIG;
  const pattern = isPrefix ? (isKey ? KEY_PREFIX : PREFIX) : isKey ? KEY : NAME;
  if (watchables.has(kind) && rest.length > 0 && pattern.test(name)) return { kind, name, isPrefix };
  throw new InvalidError(
    'watch',
    text,
    `entries such as lock:backup or lock:app-*, separated by commas; the kinds are ${[...watchables.keys()].join(', ')}`,
    { in: 'query' },
  );
}
