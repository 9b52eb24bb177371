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

/** A line that changes all the time is described as it was seen last. */
const LOOKS_MAX = 3;

/** A place as it was read. */
interface OwnPlace {
  path: string;
  stat: Stat;
  /** Without what its caller shows to others, of which there may be much; undefined for the data of others. */
  record: ContenderRecord | undefined;
  /** All of a place that a foreign client asks for. */
  overwritten: ReadNode | undefined;
}

/** A line as it was listed. */
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
    const holds: OwnHold[] = [];
    for (const batch of inBatches([...groupBy(paths, parentOf)])) {
      const described = await Promise.all(batch.map(([directory, those]) => this.#describeIn(where, directory, those)));
      for (const some of described) holds.push(...some);
    }
    return holds;
  }

  /**
   * Those in one directory, which is listed before they are read. A place that has gone meanwhile may have been
   * replaced by one that was listed as less than it is now: the line is listed again.
   */
  async #describeIn(
    where: PlaceKind,
    directory: string,
    paths: readonly string[],
    looks = LOOKS_MAX,
  ): Promise<OwnHold[]> {
    const zk = this.#zk;
    const [listing, rule] = await Promise.all([zk.list(directory), readRule(zk, where, directory)]);
    if (listing === undefined) return where === ROOM ? this.#describeMoved(directory, paths) : [];
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
    const own = new Set(paths.map(baseName));
    const listed = sorted.flatMap((contender, index) => (own.has(contender.name) ? [{ contender, index }] : []));
    const listedPaths = listed.map(({ contender }) => `${directory}/${contender.name}`);
    const keep = (node: ReadNode, i: number): OwnPlace => placeOf(kind, listedPaths[i] as string, node);
    const places = await readOfMany(zk, this.#context.control.largeReads, listedPaths, keep, CONTENDER_BYTES);
    const standing = listed.flatMap(({ contender, index }, i) => {
      const place = places[i];
      return place === undefined ? [] : [{ contender, index, place }];
    });
    if (where !== ROOM && standing.length < listed.length && looks > 1)
      return this.#describeIn(where, directory, paths, looks - 1);
    const holds = where === ROOM ? await this.#describeMoved(directory, goneFrom(paths, standing)) : [];
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
    if (gone.length === 0) return [];
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

/** Those of the paths that do not stand there, by what was read. */
function goneFrom(paths: readonly string[], standing: readonly { place: OwnPlace }[]): string[] {
  const there = new Set(standing.map(({ place }) => place.path));
  return paths.filter((path) => !there.has(path));
}

/** What is asked at most once, and only if somebody wants to know. */
function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined;
  return () => (asked ??= ask());
}
