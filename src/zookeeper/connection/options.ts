/** A connection's options, and the events it reports. */
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Server } from '../connect-string.js';
import type { Operation } from '../operations.js';
import type { Backlog } from './backlog.js';
import type { SessionIdentity } from './session-identity.js';
import type { Numbering } from './wire.js';

export interface Credential {
  scheme: string;
  auth: Buffer;
}

export interface ConnectionOptions {
  mode: 'control' | 'lease';
  /** In order of preference; a lease tries each once, a control session goes round and round. */
  servers: readonly Server[];
  /** The timeout to ask for; `sessionTimeout` is what the ensemble then granted. */
  sessionTimeoutMs: number;
  /** Refuse servers that grant another timeout. */
  exactTimeout?: boolean | undefined;
  session?: SessionIdentity | undefined;
  /** From the first SYN to ConnectResponse, for one server. */
  handshakeTimeoutMs: number;
  credentials: readonly Credential[];
  tls?: TlsOptions | undefined;
  /** How transaction ids are numbered here; as by the ensemble if undefined. */
  zxids?: Numbering | undefined;
  /** Counts every request. */
  backlog?: Backlog | undefined;
}

/** The events of a connection. No method may throw; if one does, `fault` gets the error. */
export interface ConnectionListener {
  /** The handshake is done; requests are taken from now on. */
  connected?(): void;
  /** The server has answered a request on this socket without refusing it outright: it serves. */
  serves?(): void;
  /** The socket is gone; a control connection is already trying to get another. */
  disconnected?(): void;
  /** An attempt at a server failed: no session, or one on which nothing was answered. */
  failed?(server: Server, cause: Error | undefined): void;
  /** A server took the connection and hung up before the handshake was done. */
  refused?(): void;
  /** A server did not answer in time, or grants another timeout: try it last for a while. */
  unfit?(server: Server, why: Error): void;
  /** The connection will never be used again. */
  ended(how: 'expired' | 'closed' | 'failed', cause?: Error): void;
  /** Requests to send ahead of all others on a new socket: watches to set again. */
  rearm?(lastZxid: number): Operation<unknown>[];
  notification?(type: number, path: string, zxid: number): void;
  replied?(operation: string, ms: number): void;
  fault?(error: unknown): void;
}

/** Calls a listener, and contains whatever it throws. */
export function tell(listener: ConnectionListener, call: () => void): void {
  try {
    call();
  } catch (error) {
    listener.fault?.(error);
  }
}
