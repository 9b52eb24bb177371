/** Operations on the session, and on its view of the ensemble. */
import { OPCODE, type Operation } from '../operations.js';
import { multi } from './multi.js';
import { nothing } from './records.js';

/**
 * Brings this server up to the leader's state before it answers later requests on the connection. Answers with the zxid
 * it reached. No quorum is asked: from a deposed leader that has not noticed, it is that leader's state
 * (`quorum-reads.ts`). It checks the session at the leader, so on a lease session it is the truthful heartbeat.
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

/**
 * A transaction that changes nothing. It is answered once a quorum of the ensemble has accepted it, and this server's
 * later answers on the connection are at least as new. A failed check is a transaction all the same.
 */
export function quorumCheck(path: string): Operation<void> {
  const transaction = multi([{ type: 'check', path }], []);
  return {
    name: 'quorum',
    opcode: OPCODE.multi,
    path,
    writes: false,
    encode: (writer) => transaction.encode(writer),
    decode: (reader, zxid) => void transaction.decode(reader, zxid),
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
