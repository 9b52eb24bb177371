/** A socket that reports to its owner through functions shared by all sockets: a replica has ten thousand. */
import { connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect, type ConnectionOptions as TlsOptions } from 'node:tls';
import type { Server } from '../connect-string.js';

export interface SocketOwner {
  /** The TCP connection is established. */
  onConnect(): void;
  /** The socket can be written to: with TLS, after its handshake. */
  onSocketConnected(): void;
  onSocketData(data: Buffer): void;
  onSocketError(error: Error): void;
  onClose(socket: Socket): void;
}

const OWNER = Symbol('owner');
type OwnedSocket = Socket & { [OWNER]?: SocketOwner };

/** @param tls undefined: plain TCP */
export function openSocket({ host, port }: Server, tls: TlsOptions | undefined, owner: SocketOwner): Socket {
  const socket = tls === undefined ? netConnect({ host, port }) : tlsConnect({ host, port, ...tls });
  socket.setNoDelay();
  (socket as OwnedSocket)[OWNER] = owner;
  socket.on('connect', onConnect); // over TLS too: a server that has enough connections does not greet first
  socket.on(tls === undefined ? 'connect' : 'secureConnect', onReady);
  socket.on('data', onData);
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

function onData(this: OwnedSocket, data: Buffer): void {
  this[OWNER]?.onSocketData(data);
}

function onError(this: OwnedSocket, error: Error): void {
  this[OWNER]?.onSocketError(error);
}

function onClose(this: OwnedSocket): void {
  this[OWNER]?.onClose(this);
}
