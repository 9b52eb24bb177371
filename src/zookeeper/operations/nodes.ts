/** Operations on one node. */
import {
  OPCODE,
  type Acl,
  type Created,
  type CreateMode,
  type Listing,
  type NodeData,
  type Operation,
  type Stat,
} from '../operations.js';
import { createOpcode, nothing, readStat, writeNewNode } from './records.js';

export function create(path: string, data: Uint8Array, mode: CreateMode, acl: readonly Acl[]): Operation<Created> {
  return {
    name: 'create',
    opcode: createOpcode(mode),
    path,
    writes: true,
    encode: (writer) => writeNewNode(writer.string(path), data, acl, mode),
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
