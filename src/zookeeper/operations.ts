/**
 * An operation of the protocol is a value: an opcode, how to write the request, and how to read the reply. The records
 * that operations share are here, the operations in `operations/`.
 *
 * node-zookeeper-client knows thirteen of them and ends the connection on the reply to any other (defect 27). These are
 * all that the gateway needs, with the reply's real shape: `create` is create2, because the Stat's czxid is the fencing
 * token; versions in a `multi` are written exactly as given (the library turns 0 into "any": defect 13).
 *
 * Source: org.apache.zookeeper.ZooDefs.OpCode and zookeeper.jute, ZooKeeper 3.9.
 */
import type { Reader, Writer } from './connection/wire.js';

export const OPCODE = {
  createPlain: 1,
  create: 15,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getChildrenPlain: 8,
  sync: 9,
  ping: 11,
  getChildren: 12,
  check: 13,
  multi: 14,
  removeWatches: 18,
  createContainer: 19,
  multiRead: 22,
  closeSession: -11,
  auth: 100,
  setWatches: 105,
  getEphemerals: 103,
  addWatch: 106,
} as const;

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
  /** Removed by the server once its last child is gone. */
  | 'container';

export interface Acl {
  permission: number;
  id: { scheme: string; id: string };
}

export interface Operation<T> {
  /** The label in metrics and messages. */
  readonly name: string;
  readonly opcode: number;
  /** For messages only. */
  readonly path: string;
  /** Whether it may change something: a lost reply leaves its outcome unknown. */
  readonly writes: boolean;
  encode(writer: Writer): void;
  decode(reader: Reader, zxid: number): T;
}

export type MultiOperation =
  | { type: 'create'; path: string; data?: Uint8Array; mode?: CreateMode }
  | { type: 'delete'; path: string; version?: number }
  | { type: 'setData'; path: string; data: Uint8Array; version?: number }
  | { type: 'check'; path: string; version?: number };

/** Before 3.9.3 servers do not report the times of a node created in a `multi`: they are 0. */
export type MultiResult =
  | { type: 'create'; path: string; stat: Stat }
  | { type: 'setData'; stat: Stat }
  | { type: 'delete' }
  | { type: 'check' };

export type MultiReadOperation = { type: 'getData'; path: string } | { type: 'getChildren'; path: string };

/** One entry per operation, in order; `error` is ZooKeeper's code. */
export type MultiReadResult = { data: Buffer; stat: Stat } | { children: string[] } | { error: number };

export type PersistentWatchMode = 'persistent' | 'persistent-recursive';
