/**
 * The connections of a listener. Whoever opens many of them takes them from himself: a new one is always let in, and
 * where there are too many, the address that has most loses the one that it has used least recently.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

export class Connections {
  /** Those that were used last at the end. */
  readonly #all = new Set<Socket>();
  /** How many requests of each are being answered: such a connection is not closed. */
  readonly #busy = new Map<Socket, number>();
  readonly #max: number;

  constructor(server: Server, max: number) {
    this.#max = max;
    server.prependListener('connection', (socket) => this.#admit(socket));
  }

  /** Keeps the connection open until `work` is done. */
  async during<T>(socket: Socket, work: () => T | Promise<T>): Promise<T> {
    if (this.#all.delete(socket)) this.#all.add(socket);
    this.#busy.set(socket, (this.#busy.get(socket) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const others = (this.#busy.get(socket) ?? 1) - 1;
      if (others > 0) this.#busy.set(socket, others);
      else this.#busy.delete(socket);
    }
  }

  #admit(socket: Socket): void {
    this.#all.add(socket);
    socket.once('close', () => this.#all.delete(socket));
    if (this.#all.size <= this.#max) return;
    const closed = this.#leastNeeded();
    this.#all.delete(closed); // it is closed a moment later, and others may come before that
    closed.destroy();
  }

  /** The new one itself if all others are busy. */
  #leastNeeded(): Socket {
    const byAddress = new Map<string, Socket[]>();
    for (const socket of this.#all) {
      if (this.#busy.has(socket)) continue;
      const { remoteAddress = '' } = socket;
      const same = byAddress.get(remoteAddress);
      if (same === undefined) byAddress.set(remoteAddress, [socket]);
      else same.push(socket);
    }
    const [first] = [...byAddress.values()].reduce((most, each) => (each.length > most.length ? each : most));
    return first as Socket;
  }
}
