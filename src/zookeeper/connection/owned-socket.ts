/** A socket that reports to its owner through functions shared by all sockets: a replica has ten thousand. */
import { connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect, type ConnectionOptions as TlsOptions } from 'node:tls';
import type { Server } from '../connect-string.js';

export interface SocketOwner {
  /** The TCP connection is established. */
  onConnect(): void;
  /** The socket can be written to: with TLS, after its handshake. */
  onSocketConnected(): void;
  /** @param data valid until this returns */
  onSocketData(data: Buffer): void;
  onSocketError(error: Error): void;
  onClose(socket: Socket): void;
}

/**
 * Where all plain sockets are read into, one after the other: node would allocate as much for each read. TLS cannot do
 * this.
 */
const READ_INTO = Buffer.allocUnsafeSlow(64 * 1024);

const OWNER = Symbol('owner');
type OwnedSocket = Socket & { [OWNER]?: SocketOwner };

/** @param tls undefined: plain TCP */
export function openSocket({ host, port }: Server, tls: TlsOptions | undefined, owner: SocketOwner): Socket {
  const onread = { buffer: READ_INTO, callback: onRead };
  const socket = tls === undefined ? netConnect({ host, port, onread }) : tlsConnect({ host, port, ...tls });
  socket.setNoDelay();
  (socket as OwnedSocket)[OWNER] = owner;
  socket.on('connect', onConnect); // over TLS too: a server that has enough connections does not greet first
  socket.on(tls === undefined ? 'connect' : 'secureConnect', onReady);
  if (tls !== undefined) socket.on('data', onData);
  socket.on('error', onError);
  socket.on('close', onClose);
  return socket;
}

function onConnect(this: OwnedSocket): void {
  this[OWNER]?.onConnect();
}

function onReady(this: OwnedSocket): void {
  this[OWNER]?.onSocketConnected();
}

/** @returns whether to read on */
function onRead(this: OwnedSocket, bytes: number, buffer: Uint8Array): boolean {
  this[OWNER]?.onSocketData(buffer.subarray(0, bytes) as Buffer);
  return true;
}

function onData(this: OwnedSocket, data: Buffer): void {
  this[OWNER]?.onSocketData(data);
}

function onError(this: OwnedSocket, error: Error): void {
  this[OWNER]?.onSocketError(error);
}

function onClose(this: OwnedSocket): void {
  this[OWNER]?.onClose(this);
}
