/**
 * A lease's places in lines, and in the rooms before locks by priority. It may have thousands in one line, so each line
 * is listed and sorted once, and others have the event loop in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ROOM, type LineKind, type PlaceKind } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { Stat } from '../../zookeeper/operations.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { readOfMany, type ReadNode } from '../../zookeeper/read-nodes.js';
import type { Coordination } from '../coordination.js';
import {
  decodeRecord,
  guidOf,
  holdIdOf,
  isPrepared,
  sortLine,
  type Contender,
  type ContenderRecord,
} from '../line/contender.js';
import { delayBeside } from '../line/delay/lock-delay.js';
import { CONTENDER_BYTES } from '../line/describe.js';
import { readLineDirectory } from '../line/directory.js';
import { readRule } from '../line/permits/agreement.js';
import { heedForeignRevoke, isOverwritten } from '../line/revocation/foreign.js';
import { groupBy, inBatches, type OwnHold } from './own-hold.js';

/** A place as it was read. */
interface OwnPlace {
  path: string;
  stat: Stat;
  /** Without what its caller shows to others, of which there may be much; undefined for the data of others. */
  record: ContenderRecord | undefined;
  /** All of a place that a foreign client asks for. */
  overwritten: ReadNode | undefined;
}

/** A line as it was listed, after the lease's own places in it were read. */
interface OwnLine {
  kind: LineKind;
  /** Of the line. */
  name: string;
  admitted: number;
  holding: number;
  leads: boolean;
  /** Whether a lock-delay runs beside which it does not count that a place says `granted`. */
  isExcluded: () => Promise<boolean>;
  /** Of a room: whether nobody stands in the line behind it. */
  isNextFree: () => Promise<boolean>;
}

/** For one look of one lease. */
export class OwnPlaces {
  readonly #context: Coordination;
  readonly #zk: BoundClient;
  readonly #lease: Lease;

  constructor(context: Coordination, zk: BoundClient, lease: Lease) {
    this.#context = context;
    this.#zk = zk;
    this.#lease = lease;
  }

  /** Those that still exist. */
  async describe(where: PlaceKind, paths: readonly string[]): Promise<OwnHold[]> {
    const kind = where === ROOM ? 'lock' : where;
    const keep = (node: ReadNode, i: number): OwnPlace => placeOf(kind, paths[i] as string, node);
    const places = await readOfMany(this.#zk, this.#context.control.largeReads, paths, keep, CONTENDER_BYTES);
    const own = paths.map((path, i) => ({ path, place: places[i] }));
    const holds: OwnHold[] = [];
    for (const batch of inBatches([...groupBy(own, ({ path }) => parentOf(path))])) {
      const described = await Promise.all(
        batch.map(([directory, those]) => {
          const there = those.flatMap(({ place }) => place ?? []);
          const gone = those.filter(({ place }) => place === undefined).map(({ path }) => path);
          return Promise.all([
            there.length === 0 ? [] : this.#describeIn(where, directory, there),
            gone.length === 0 || where !== ROOM ? [] : this.#describeMoved(directory, gone),
          ]);
        }),
      );
      for (const some of described.flat()) holds.push(...some);
    }
    return holds;
  }

  /** Those in one directory. */
  async #describeIn(where: PlaceKind, directory: string, places: readonly OwnPlace[]): Promise<OwnHold[]> {
    const zk = this.#zk;
    const [listing, rule] = await Promise.all([zk.list(directory), readRule(zk, where, directory)]);
    if (listing === undefined) return [];
    const sorted = sortLine(listing.children);
    const kind = where === ROOM ? 'lock' : where;
    const name = baseName(directory);
    const nextDirectory = this.#context.layout.line(kind, this.#lease.namespace, name);
    const line: OwnLine = {
      kind,
      name,
      admitted: rule.admitted(sorted),
      holding: where === ROOM ? 0 : rule.holding(sorted),
      leads: rule.leads,
      isExcluded: once(
        async () =>
          readLineDirectory(listing.stat).delays &&
          (await delayBeside(this.#context, zk, directory, sorted, listing.zxid)) !== undefined,
      ),
      isNextFree: once(async () => where !== ROOM || (await zk.children(nextDirectory)).length === 0),
    };
    const own = new Map(places.map((place) => [baseName(place.path), place]));
    const standing = sorted.flatMap((contender, index) => {
      const place = own.get(contender.name);
      return place === undefined ? [] : [{ contender, index, place }];
    });
    const holds: OwnHold[] = [];
    for (const [i, batch] of inBatches(standing).entries()) {
      if (i > 0) await nextTurn();
      const described = await Promise.all(
        batch.map(({ contender, index, place }) => this.#describe(line, contender, index, place)),
      );
      holds.push(...described.filter((hold) => hold !== undefined));
    }
    return holds;
  }

  async #describe(
    line: OwnLine,
    contender: Contender,
    index: number,
    { path, stat, record: own, overwritten }: OwnPlace,
  ): Promise<OwnHold | undefined> {
    const { kind, name } = line;
    const isNext = index < line.admitted;
    const record = overwritten !== undefined && isNext ? await this.#heed(line, path, overwritten) : own;
    if (record === undefined || isPrepared(record)) return undefined;
    const held = index < line.holding && (line.leads || (record.state === 'granted' && !(await line.isExcluded())));
    const isUnasked = record.waitUntil !== undefined && record.waitUntil < this.#context.zooKeeperClock.now();
    return {
      kind,
      name,
      path,
      held,
      isTurn: !held && isUnasked && isNext && (await line.isNextFree()),
      holdId: holdIdOf(contender, stat),
      requestId: record.requestId,
      fencingToken: stat.czxid,
      since: held ? (record.grantedAt ?? stat.ctime) : stat.ctime,
    };
  }

  /** Places that were in a room when that was listed: their turn may have come since. */
  async #describeMoved(room: string, gone: readonly string[]): Promise<OwnHold[]> {
    const directory = this.#context.layout.line('lock', this.#lease.namespace, baseName(room));
    const guids = new Set(gone.map((path) => guidOf(baseName(path))));
    await this.#zk.sync(directory);
    const moved = new Map<string, string>();
    for (const name of await this.#zk.children(directory)) {
      const guid = guidOf(name);
      if (guid !== undefined && guids.has(guid) && !moved.has(guid)) moved.set(guid, `${directory}/${name}`);
    }
    return moved.size === 0 ? [] : this.describe('lock', [...moved.values()]);
  }

  /** The lease looks at a hold that a foreign client has asked for: it is told, and the hold is readable again. */
  async #heed({ kind, name }: OwnLine, path: string, node: ReadNode): Promise<ContenderRecord | undefined> {
    const { namespace, leaseId } = this.#lease;
    const { deadline } = this.#zk;
    const record = await this.#context.leases.records.find(namespace, leaseId, deadline);
    const hold = { kind, namespace, name, path };
    return record === undefined ? undefined : heedForeignRevoke(this.#context, hold, node, record, deadline);
  }
}

function placeOf(kind: LineKind, path: string, node: ReadNode): OwnPlace {
  const record = decodeRecord(node.data);
  if (record !== undefined) delete record.data;
  return { path, stat: node.stat, record, overwritten: isOverwritten(kind, path, node.data) ? node : undefined };
}

/** What is asked at most once, and only if somebody wants to know. */
function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined;
  return () => (asked ??= ask());
}
