/** Many operations in one request: `multi` does all or none of them, `multiRead` answers each separately. */
import { ProtocolError, type Reader, type Writer } from '../connection/wire.js';
import { ZooKeeperError } from '../errors.js';
import {
  ANY_VERSION,
  OPCODE,
  type Acl,
  type MultiOperation,
  type MultiReadOperation,
  type MultiReadResult,
  type MultiResult,
  type Operation,
  type Stat,
} from '../operations.js';
import { createOpcode, readStat, writeNewNode } from './records.js';

const ERROR_RESULT = -1;
const NO_DATA = new Uint8Array(0);

/** All or none. Fails with the error of the failed operation, and its index. */
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
            writeNewNode(writer, operation.data ?? NO_DATA, acl, operation.mode ?? 'persistent');
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
          // Operations before the culprit report OK, those after it RUNTIME_INCONSISTENCY: the first that is not OK is
          // the culprit.
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

/** Many reads in one round trip, without watches; each has a result of its own (3.6 and later). */
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
 * Before ZOOKEEPER-4026 (3.9.3; so in all of 3.8) a create2 inside a `multi` is answered by a path alone. A new node's
 * Stat is known nevertheless, except for the times and the owner: its zxids are that of the transaction.
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
