/**
 * The operations of the protocol as values: opcode, how the request is written, how the reply is read.
 *
 * node-zookeeper-client knows thirteen of them and ends the connection on the reply to any other
 * (defect 27). These are all that the gateway needs, with the reply's real shape: `create` is
 * create2, because the Stat's czxid is the fencing token; versions in a `multi` are written exactly as given
 * (the library turns 0 into "any": defect 13).
 *
 * Source: org.apache.zookeeper.ZooDefs.OpCode and zookeeper.jute, ZooKeeper 3.9.
 */
import { ProtocolError, type Reader, type Writer } from './wire.js';
import { ZooKeeperError } from './errors.js';

export const OPCODE = {
  createPlain: 1,
  create: 15,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getAcl: 6,
  setAcl: 7,
  getChildrenPlain: 8,
  sync: 9,
  ping: 11,
  getChildren: 12,
  check: 13,
  multi: 14,
  removeWatches: 18,
  createContainer: 19,
  createTtl: 21,
  multiRead: 22,
  closeSession: -11,
  auth: 100,
  setWatches: 105,
  getEphemerals: 103,
  getAllChildrenNumber: 104,
  addWatch: 106,
  whoAmI: 107,
} as const;

const ERROR_RESULT = -1;

/** "Any version" in `delete`, `setData` and `check`. */
export const ANY_VERSION = -1;

export interface Stat {
  czxid: number;
  mzxid: number;
  /** Epoch ms on the clock of the ensemble's leader. */
  ctime: number;
  mtime: number;
  version: number;
  cversion: number;
  aversion: number;
  /** Session id of the owner; 0 for all other nodes: servers do not tell clients which are containers or have a TTL. */
  ephemeralOwner: bigint;
  dataLength: number;
  numChildren: number;
  pzxid: number;
}

export interface Created {
  path: string;
  stat: Stat;
}

/** Reads carry the zxid of the reply's header: how new the server's state was. */
export interface NodeData {
  data: Buffer;
  stat: Stat;
  zxid: number;
}

export interface Listing {
  children: string[];
  stat: Stat;
  zxid: number;
}

export type CreateMode =
  | 'persistent'
  | 'persistent-sequential'
  | 'ephemeral'
  | 'ephemeral-sequential'
  | 'container'
  /** Removed by the server when it had no children and was not written for `ttlMs`. */
  | 'ttl'
  | 'ttl-sequential';

const MODE_FLAGS: Readonly<Record<CreateMode, number>> = {
  persistent: 0,
  ephemeral: 1,
  'persistent-sequential': 2,
  'ephemeral-sequential': 3,
  container: 4,
  ttl: 5,
  'ttl-sequential': 6,
};

export interface Acl {
  permission: number;
  id: { scheme: string; id: string };
}

export interface Operation<T> {
  /** Label of metrics and messages. */
  readonly name: string;
  readonly opcode: number;
  /** For messages only. */
  readonly path: string;
  /** Whether it may change something: a lost reply leaves its outcome open. */
  readonly writes: boolean;
  encode(writer: Writer): void;
  decode(reader: Reader, zxid: number): T;
}

export type MultiOperation =
  | { type: 'create'; path: string; data?: Uint8Array; mode?: Exclude<CreateMode, 'ttl' | 'ttl-sequential'> }
  | { type: 'delete'; path: string; version?: number }
  | { type: 'setData'; path: string; data: Uint8Array; version?: number }
  | { type: 'check'; path: string; version?: number };

/** Before 3.9.3 the server does not tell the times of a node created in a `multi`: they are 0. */
export type MultiResult =
  | { type: 'create'; path: string; stat: Stat }
  | { type: 'setData'; stat: Stat }
  | { type: 'delete' }
  | { type: 'check' };

export type MultiReadOperation = { type: 'getData'; path: string } | { type: 'getChildren'; path: string };

/** One entry per operation, in order; `error` is ZooKeeper's code. */
export type MultiReadResult = { data: Buffer; stat: Stat } | { children: string[] } | { error: number };

const NO_DATA = new Uint8Array(0);

export function readStat(reader: Reader): Stat {
  return {
    czxid: reader.long(),
    mzxid: reader.long(),
    ctime: reader.long(),
    mtime: reader.long(),
    version: reader.int(),
    cversion: reader.int(),
    aversion: reader.int(),
    ephemeralOwner: reader.bigLong(),
    dataLength: reader.int(),
    numChildren: reader.int(),
    pzxid: reader.long(),
  };
}

function writeAcl(writer: Writer, acl: readonly Acl[]): void {
  writer.int(acl.length);
  for (const { permission, id } of acl) writer.int(permission).string(id.scheme).string(id.id);
}

function createOpcode(mode: CreateMode): number {
  if (mode === 'container') return OPCODE.createContainer;
  return mode === 'ttl' || mode === 'ttl-sequential' ? OPCODE.createTtl : OPCODE.create;
}

export function create(
  path: string,
  data: Uint8Array,
  mode: CreateMode,
  acl: readonly Acl[],
  ttlMs = 0,
): Operation<Created> {
  return {
    name: 'create',
    opcode: createOpcode(mode),
    path,
    writes: true,
    encode(writer) {
      writer.string(path).bytes(data);
      writeAcl(writer, acl);
      writer.int(MODE_FLAGS[mode]);
      if (mode === 'ttl' || mode === 'ttl-sequential') writer.long(ttlMs);
    },
    decode: (reader) => ({ path: reader.string(), stat: readStat(reader) }),
  };
}

export function remove(path: string, version: number): Operation<void> {
  return {
    name: 'delete',
    opcode: OPCODE.delete,
    path,
    writes: true,
    encode: (writer) => void writer.string(path).int(version),
    decode: nothing,
  };
}

/** Never sets a watch: `exists` on a missing node would leave one behind. */
export function exists(path: string): Operation<Stat> {
  return {
    name: 'exists',
    opcode: OPCODE.exists,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).boolean(false),
    decode: readStat,
  };
}

export function existsWatch(path: string): Operation<Stat> {
  return {
    name: 'exists',
    opcode: OPCODE.exists,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).boolean(true),
    decode: readStat,
  };
}

export function getData(path: string, watch: boolean): Operation<NodeData> {
  return {
    name: 'getData',
    opcode: OPCODE.getData,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).boolean(watch),
    decode: (reader, zxid) => ({ data: reader.bytes(), stat: readStat(reader), zxid }),
  };
}

export function setData(path: string, data: Uint8Array, version: number): Operation<Stat> {
  return {
    name: 'setData',
    opcode: OPCODE.setData,
    path,
    writes: true,
    encode: (writer) => void writer.string(path).bytes(data).int(version),
    decode: readStat,
  };
}

export function getChildren(path: string, watch: boolean): Operation<Listing> {
  return {
    name: 'getChildren',
    opcode: OPCODE.getChildren,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).boolean(watch),
    decode: (reader, zxid) => ({ children: reader.vector(() => reader.string()), stat: readStat(reader), zxid }),
  };
}

export function getAcl(path: string): Operation<{ acl: Acl[]; stat: Stat }> {
  return {
    name: 'getAcl',
    opcode: OPCODE.getAcl,
    path,
    writes: false,
    encode: (writer) => void writer.string(path),
    decode: (reader) => ({
      acl: reader.vector(() => ({ permission: reader.int(), id: { scheme: reader.string(), id: reader.string() } })),
      stat: readStat(reader),
    }),
  };
}

export function setAcl(path: string, acl: readonly Acl[], version: number): Operation<Stat> {
  return {
    name: 'setAcl',
    opcode: OPCODE.setAcl,
    path,
    writes: true,
    encode(writer) {
      writer.string(path);
      writeAcl(writer, acl);
      writer.int(version);
    },
    decode: readStat,
  };
}

/**
 * Brings this server up to the leader's state before it answers what follows on the connection. Answers
 * with the zxid it reached. It checks the session at the leader, so on a lease session it is the truthful heartbeat.
 */
export function sync(path: string): Operation<number> {
  return {
    name: 'sync',
    opcode: OPCODE.sync,
    path,
    writes: false,
    encode: (writer) => void writer.string(path),
    decode: (_reader, zxid) => zxid,
  };
}

export function getEphemerals(prefix: string): Operation<string[]> {
  return {
    name: 'getEphemerals',
    opcode: OPCODE.getEphemerals,
    path: prefix,
    writes: false,
    encode: (writer) => void writer.string(prefix),
    decode: (reader) => reader.vector(() => reader.string()),
  };
}

/** The number of all nodes below `path`, at any depth. */
export function getAllChildrenNumber(path: string): Operation<number> {
  return {
    name: 'getAllChildrenNumber',
    opcode: OPCODE.getAllChildrenNumber,
    path,
    writes: false,
    encode: (writer) => void writer.string(path),
    decode: (reader) => reader.int(),
  };
}

export function whoAmI(): Operation<{ scheme: string; user: string }[]> {
  return {
    name: 'whoAmI',
    opcode: OPCODE.whoAmI,
    path: '',
    writes: false,
    encode: nothing,
    decode: (reader) => reader.vector(() => ({ scheme: reader.string(), user: reader.string() })),
  };
}

export type PersistentWatchMode = 'persistent' | 'persistent-recursive';

export function addWatch(path: string, mode: PersistentWatchMode): Operation<void> {
  return {
    name: 'addWatch',
    opcode: OPCODE.addWatch,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).int(mode === 'persistent' ? 0 : 1),
    decode: nothing,
  };
}

const WATCHER_TYPE = { children: 1, data: 2, any: 3 } as const;

/** Removes this session's watches of one kind from `path`; NO_WATCHER when there is none. */
export function removeWatches(path: string, type: keyof typeof WATCHER_TYPE): Operation<void> {
  return {
    name: 'removeWatches',
    opcode: OPCODE.removeWatches,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).int(WATCHER_TYPE[type]),
    decode: nothing,
  };
}

export function closeSession(): Operation<void> {
  return {
    name: 'closeSession',
    opcode: OPCODE.closeSession,
    path: '',
    writes: true,
    encode: nothing,
    decode: nothing,
  };
}

/** All or none. Fails with the error of the operation that failed and its index. */
export function multi(operations: readonly MultiOperation[], acl: readonly Acl[]): Operation<MultiResult[]> {
  return {
    name: 'multi',
    opcode: OPCODE.multi,
    path: operations[0]?.path ?? '',
    writes: true,
    encode(writer) {
      for (const operation of operations) {
        writeMultiHeader(writer, multiOpcode(operation), false);
        writer.string(operation.path);
        switch (operation.type) {
          case 'create':
            writer.bytes(operation.data ?? NO_DATA);
            writeAcl(writer, acl);
            writer.int(MODE_FLAGS[operation.mode ?? 'persistent']);
            break;
          case 'setData':
            writer.bytes(operation.data).int(operation.version ?? ANY_VERSION);
            break;
          case 'delete':
          case 'check':
            writer.int(operation.version ?? ANY_VERSION);
            break;
        }
      }
      writeMultiHeader(writer, ERROR_RESULT, true);
    },
    decode(reader, zxid) {
      const results: MultiResult[] = [];
      let failure: { index: number; code: number } | undefined;
      for (let index = 0; ; index += 1) {
        const header = readMultiHeader(reader);
        if (header.done) break;
        if (header.type === ERROR_RESULT) {
          const code = reader.int();
          // Those before the culprit report OK, those after it RUNTIME_INCONSISTENCY: the first that is not OK is the culprit.
          if (code !== 0) failure ??= { index, code };
        } else {
          results.push(readMultiResult(reader, header.type, zxid, operations[index]));
        }
      }
      if (failure !== undefined)
        throw new ZooKeeperError(failure.code, 'multi', operations[failure.index]?.path ?? '', zxid, failure.index);
      return results;
    },
  };
}

/** Many reads in one round trip, without watches; each has its own result (3.6 and later). */
export function multiRead(
  operations: readonly MultiReadOperation[],
): Operation<{ results: MultiReadResult[]; zxid: number }> {
  return {
    name: 'multiRead',
    opcode: OPCODE.multiRead,
    path: operations[0]?.path ?? '',
    writes: false,
    encode(writer) {
      for (const operation of operations) {
        writeMultiHeader(writer, operation.type === 'getData' ? OPCODE.getData : OPCODE.getChildrenPlain, false);
        writer.string(operation.path).boolean(false);
      }
      writeMultiHeader(writer, ERROR_RESULT, true);
    },
    decode(reader, zxid) {
      const results: MultiReadResult[] = [];
      for (;;) {
        const header = readMultiHeader(reader);
        if (header.done) return { results, zxid };
        if (header.type === ERROR_RESULT) results.push({ error: reader.int() });
        else if (header.type === OPCODE.getData) results.push({ data: reader.bytes(), stat: readStat(reader) });
        else if (header.type === OPCODE.getChildrenPlain)
          results.push({ children: reader.vector(() => reader.string()) });
        else throw new ProtocolError(`a multiRead result has the unknown type ${header.type}`);
      }
    },
  };
}

function multiOpcode(operation: MultiOperation): number {
  switch (operation.type) {
    case 'create':
      return createOpcode(operation.mode ?? 'persistent');
    case 'delete':
      return OPCODE.delete;
    case 'setData':
      return OPCODE.setData;
    case 'check':
      return OPCODE.check;
  }
}

function readMultiResult(
  reader: Reader,
  type: number,
  zxid: number,
  operation: MultiOperation | undefined,
): MultiResult {
  switch (type) {
    case OPCODE.createPlain:
      return { type: 'create', path: reader.string(), stat: statOfCreated(zxid, operation) };
    case OPCODE.create:
    case OPCODE.createContainer:
      return { type: 'create', path: reader.string(), stat: readStat(reader) };
    case OPCODE.setData:
      return { type: 'setData', stat: readStat(reader) };
    case OPCODE.delete:
      return { type: 'delete' };
    case OPCODE.check:
      return { type: 'check' };
    default:
      throw new ProtocolError(`a multi result has the unknown type ${type}`);
  }
}

/**
 * Before ZOOKEEPER-4026 (3.9.3; so all of 3.8) a create2 inside a `multi` is answered by a path alone. What a new node's Stat
 * says is known all the same, but for the times and the owner: its zxids are that of the transaction.
 */
function statOfCreated(zxid: number, operation: MultiOperation | undefined): Stat {
  return {
    czxid: zxid,
    mzxid: zxid,
    ctime: 0,
    mtime: 0,
    version: 0,
    cversion: 0,
    aversion: 0,
    ephemeralOwner: 0n,
    dataLength: operation?.type === 'create' ? (operation.data?.length ?? 0) : 0,
    numChildren: 0,
    pzxid: zxid,
  };
}

function writeMultiHeader(writer: Writer, type: number, done: boolean): void {
  writer.int(type).boolean(done).int(-1);
}

function readMultiHeader(reader: Reader): { type: number; done: boolean } {
  const type = reader.int();
  const done = reader.boolean();
  reader.int();
  return { type, done };
}

function nothing(): void {
  // closeSession and the like: neither request nor reply has a body.
}
