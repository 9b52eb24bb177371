/** Records that several operations write or read. */
import type { Reader, Writer } from '../connection/wire.js';
import { OPCODE, type Acl, type CreateMode, type Stat } from '../operations.js';

const MODE_FLAGS: Readonly<Record<CreateMode, number>> = {
  persistent: 0,
  ephemeral: 1,
  'persistent-sequential': 2,
  'ephemeral-sequential': 3,
  container: 4,
};

export function readStat(reader: Reader): Stat {
  return {
    czxid: reader.zxid(),
    mzxid: reader.zxid(),
    ctime: reader.long(),
    mtime: reader.long(),
    version: reader.int(),
    cversion: reader.int(),
    aversion: reader.int(),
    ephemeralOwner: reader.bigLong(),
    dataLength: reader.int(),
    numChildren: reader.int(),
    pzxid: reader.zxid(),
  };
}

export function createOpcode(mode: CreateMode): number {
  return mode === 'container' ? OPCODE.createContainer : OPCODE.create;
}

/** The part of a create request after the path. */
export function writeNewNode(writer: Writer, data: Uint8Array, acl: readonly Acl[], mode: CreateMode): void {
  writeAcl(writer.bytes(data), acl);
  writer.int(MODE_FLAGS[mode]);
}

export function writeAcl(writer: Writer, acl: readonly Acl[]): void {
  writer.int(acl.length);
  for (const { permission, id } of acl) writer.int(permission).string(id.scheme).string(id.id);
}

/** Writes or reads an empty body. */
export function nothing(): void {}
