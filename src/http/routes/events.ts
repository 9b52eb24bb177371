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
import { BrokenRulesError, InvalidError } from '../../errors.js';
import { DEFAULT_NAMESPACE } from '../../leases/layout.js';
import type { Leases } from '../../leases/leases.js';
import { coverOf, prefixIn } from '../../prefixes.js';
import type { ConfigObservers } from '../../recipes/config/observers.js';
import type { KeySummary } from '../../recipes/config/summaries.js';
import { parentKeyOf } from '../../recipes/config/view.js';
import type { NamesRecipe } from '../../recipes/names/recipe.js';
import type { Work } from '../../recipes/observing/turns.js';
import type { EventStream, Exchange, Handler, Routes } from '../frame/exchange.js';
import { describeKey } from './config/streams.js';
import { AT_ONCE, ListWalk } from './list-walk.js';
import { ManyThings, THINGS_MAX, type Thing } from './many-things.js';
import type { Building } from './shared/serving.js';
import { subscribedStream } from './shared/state-stream.js';
import { namespaceOf } from './shared/subject.js';
import type { Watchable, Watchables } from './shared/watchable.js';

const CONFIG = 'config';
const KEY = /^(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]{1,200}(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]{1,200}){0,31}$/;
const NAME = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/;
const PREFIX = /^[A-Za-z0-9._~-]{0,200}$/;
const KEY_PREFIX = /^[A-Za-z0-9._~/-]{0,1024}$/;

/** So many entries cost no more than some milliseconds, and more would hardly fit into a request target. */
const ENTRIES_MAX = 256;

/** One thing, or all whose names begin with something. */
interface Entry extends Thing {
  readonly isPrefix: boolean;
}

/** The names in one directory that begin with one of the prefixes, of which none covers another (`coverOf`). */
interface List {
  readonly kind: string;
  readonly prefixes: readonly string[];
}

interface Wanted {
  readonly named: readonly Thing[];
  readonly lists: readonly List[];
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
  listPools: 'pool',
  listRuns: 'run',
  listSchedules: 'schedule',
};

export function eventRoutes(building: Building): Routes {
  const { watchables } = building;
  const streams = new Streams(building);
  return {
    watchMany: async (exchange) =>
      streams.open(exchange, exchange.namespace ?? DEFAULT_NAMESPACE, wantedOf(exchange, watchables)),
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
    return this.open(exchange, namespace, { named: [], lists: [{ kind, prefixes: [prefix] }] });
  }

  open(exchange: Exchange, namespace: string, wanted: Wanted): EventStream {
    const { named, lists } = wanted;
    for (const thing of named) exchange.authorize('read', namespace, thing);
    for (const { kind } of lists) exchange.authorize('read', namespace, { kind });
    const { watched, turns } = this.#names;
    const principal = exchange.principal.id;
    const refused = watched.refusal(principal, named.length + countPrefixes(lists));
    if (refused !== undefined) throw refused;
    return subscribedStream(exchange, (sink, onFail) => {
      const things = new ManyThings({ sink, share: watched.share(principal), turns, onFail });
      const stops: (() => void)[] = [];
      things.run(this.#begin({ things, exchange, namespace }, wanted, stops));
      return () => {
        for (const stop of stops) stop();
        things.close();
      };
    });
  }

  /** @param stops gets what ends the subscriptions to lists */
  *#begin(asked: Asked, { named, lists }: Wanted, stops: (() => void)[]): Work {
    const { things } = asked;
    if (!things.take(named.length, countPrefixes(lists))) return;
    for (const thing of named) {
      if (things.isClosed) return;
      this.#watchOne(asked, thing, true);
      yield;
    }
    for (const list of lists) {
      if (things.isClosed) return;
      // Things that are named are told of also while they are not in use, so the lists leave them out.
      const left = new Set(named.filter(({ kind }) => kind === list.kind).map(({ name }) => name));
      stops.push(list.kind === CONFIG ? this.#watchKeys(asked, list, left) : this.#watchNames(asked, list, left));
      yield;
    }
    things.listed();
  }

  /** @param always tell of it also while it is not in use */
  #watchOne({ things, namespace }: Asked, { kind, name }: Thing, always: boolean): void {
    things.watch({ kind, name }, (tell) =>
      this.#of(kind).subscribe(namespace, name, ({ etag, state, inUse }) =>
        tell(state !== undefined && (always || inUse) ? { etag, state } : undefined),
      ),
    );
  }

  /** The names in a directory, and what each is of: those that come are watched, and those that go are no more. */
  #watchNames(asked: Asked, { kind, prefixes }: List, left: ReadonlySet<string>): () => void {
    const { things, exchange, namespace } = asked;
    const path = this.#of(kind).pathOf(namespace, 'any');
    const directory = path.slice(0, path.lastIndexOf('/'));
    let present: ReadonlySet<string> | undefined;
    const isNew = (name: string): boolean =>
      present?.has(name) === true &&
      exchange.allows('read', namespace, { kind, name }) &&
      !things.watches({ kind, name });
    const watchNew = this.#watchNew.bind(this, asked, kind);
    const walk = new ListWalk(things, function* (names) {
      const found: string[] = [];
      let looked = 0;
      for (const name of names) {
        if (looked++ % AT_ONCE === 0) yield;
        if (prefixIn(prefixes, name) === undefined || left.has(name)) continue;
        if (present?.has(name) !== true) things.forget({ kind, name });
        else if (isNew(name)) found.push(name);
        // More than there is room for already: none of them is watched.
        if (found.length > THINGS_MAX) break;
      }
      yield* watchNew(found);
    });
    return this.#names.observers.subscribe({ path: directory }, ({ names, changed }) => {
      walk.add(present === undefined ? names : changed);
      present = names;
    });
  }

  *#watchNew(asked: Asked, kind: string, names: readonly string[]): Work {
    const { things, exchange, namespace } = asked;
    if (!things.take(names.length)) return;
    for (const name of names) {
      exchange.authorize('read', namespace, { kind, name });
      this.#watchOne(asked, { kind, name }, false);
      yield;
    }
  }

  /** Keys are told without their values, as in the stream of their list. */
  #watchKeys({ things, exchange, namespace }: Asked, { prefixes }: List, left: ReadonlySet<string>): () => void {
    const isShown = (key: string): boolean =>
      prefixIn(prefixes, key) !== undefined &&
      !left.has(key) &&
      exchange.allows('read', namespace, { kind: CONFIG, name: key });
    let present: ReadonlyMap<string, KeySummary> | undefined;
    const walk = new ListWalk(things, function* (names) {
      let looked = 0;
      for (const name of names) {
        if (looked++ % AT_ONCE === 0) yield;
        if (!isShown(name)) continue;
        const now = present?.get(name);
        things.tell({ kind: CONFIG, name }, now && { etag: now.etag, state: describeKey(now) });
      }
    });
    return this.#config.subscribePrefixes(namespace, prefixes, exchange.principal.id, ({ keys, changes, refused }) => {
      if (refused !== undefined) return things.fail(refused);
      walk.add(present === undefined ? keys.keys() : changes.map(({ key }) => key));
      present = keys;
    });
  }

  #of(kind: string): Watchable {
    return this.#watchables.get(kind) as Watchable;
  }
}

function countPrefixes(lists: readonly List[]): number {
  return lists.reduce((sum, { prefixes }) => sum + prefixes.length, 0);
}

/** @throws InvalidError */
function wantedOf({ query }: Exchange, watchables: Watchables): Wanted {
  const { watch } = query as { watch: string };
  const texts = watch.split(',');
  if (texts.length > ENTRIES_MAX) throw tooManyEntries(texts.length);
  const entries = [...new Set(texts)].map((text) => entryOf(text, watchables));
  const named = entries.filter(({ isPrefix }) => !isPrefix);
  const kinds = new Set(entries.filter(({ isPrefix }) => isPrefix).map(({ kind }) => kind));
  const lists = [...kinds].flatMap((kind) => {
    const prefixes = coverOf(entries.filter((one) => one.isPrefix && one.kind === kind).map(({ name }) => name));
    return kind === CONFIG ? inDirectories(prefixes) : [{ kind, prefixes }];
  });
  return { named, lists };
}

/** Keys are watched by directory. */
function inDirectories(prefixes: readonly string[]): List[] {
  const directories = new Map<string, string[]>();
  for (const prefix of prefixes) {
    const directory = parentKeyOf(prefix);
    directories.set(directory, [...(directories.get(directory) ?? []), prefix]);
  }
  return [...directories.values()].map((those) => ({ kind: CONFIG, prefixes: those }));
}

function tooManyEntries(count: number): BrokenRulesError {
  const detail = `watch has ${count} entries; it may have at most ${ENTRIES_MAX}.`;
  return new BrokenRulesError('query', [{ field: 'watch', detail }], { maxEntries: ENTRIES_MAX });
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
