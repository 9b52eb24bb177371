/**
 * The frames that open a session: the request to begin or resume one, the server's answer, and the credentials that
 * follow.
 *
 * The requests are the library's records. The answer is read here: the library's reader runs past the end of a short
 * frame without complaint (defect 9).
 */
import jute from 'node-zookeeper-client/lib/jute/index.js';
import { OPCODE } from '../operations.js';
import type { Credential } from './options.js';
import type { SessionIdentity } from './session-identity.js';
import { ProtocolError, Reader } from './wire.js';

const ID_BYTES = 8;
const PASSWORD_BYTES = 16;

/** The server's grant. A timeout or an id of 0 means that the session no longer exists. */
export interface Granted extends SessionIdentity {
  timeoutMs: number;
}

/**
 * @param timeoutMs the session timeout to ask for
 * @param session all zeros for a new one
 * @param lastZxid servers that are behind it refuse the connection; 0 accepts any
 */
export function connectRequest(timeoutMs: number, session: SessionIdentity, lastZxid: number): Buffer {
  const zxid = Buffer.alloc(8);
  zxid.writeBigInt64BE(BigInt(lastZxid));
  const { id, password } = session;
  const record = new jute.protocol.ConnectRequest(jute.PROTOCOL_VERSION, zxid, timeoutMs, id, password);
  return new jute.Request(null, record).toBuffer();
}

/** @throws ProtocolError */
export function readConnectResponse(frame: Buffer): Granted {
  const reader = new Reader(frame);
  reader.int(); // protocol version; a last byte, read-only, is not looked at (defect 28)
  const timeoutMs = reader.int();
  const id = Buffer.alloc(ID_BYTES);
  id.writeBigInt64BE(reader.bigLong());
  const password = reader.bytes();
  if (password.length !== PASSWORD_BYTES)
    throw new ProtocolError(`the handshake has a password of ${password.length} bytes`);
  return { timeoutMs, id, password };
}

/** Whether the server says that the session has ended. */
export function isExpired({ timeoutMs, id }: Granted): boolean {
  return timeoutMs <= 0 || id.readBigInt64BE() === 0n;
}

export function authRequest({ scheme, auth }: Credential): Buffer {
  return new jute.Request(
    new jute.protocol.RequestHeader(jute.XID_AUTHENTICATION, OPCODE.auth),
    new jute.protocol.AuthPacket(0, scheme, auth),
  ).toBuffer();
}
