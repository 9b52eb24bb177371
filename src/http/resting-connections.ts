/**
 * Connections whose client was refused: their next request is not read for a while.
 *
 * A client that asks again at once, whatever it was told, would otherwise be most of the work: a refusal costs a fifth of a request that takes a
 * lock. And with more than a thousand of them there is always a socket to read, and the event loop reads for seconds (libuv: 48 times 1 024 sockets)
 * before it comes to anything else, to what is to be written to ZooKeeper among it.
 */
import type { Socket } from 'node:net';

interface Resting {
  readonly socket: Socket;
  /** Monotonic. */
  readonly until: number;
}

export class RestingConnections {
  readonly #restMs: number;
  #resting: Resting[] = [];

  constructor(restMs: number) {
    this.#restMs = restMs;
  }

  /** What has been read of it already is still served. @param now monotonic */
  add(socket: Socket, now: number): void {
    // Node starts to read the next request when it has read this one to its end, which is after this.
    process.nextTick(() => socket.pause());
    this.#resting.push({ socket, until: now + this.#restMs });
  }

  /** Lets those go on whose time is over. To be called often. */
  wake(now: number): void {
    const due = this.#resting.findIndex(({ until }) => until > now);
    if (due === 0) return;
    for (const { socket } of due === -1 ? this.#resting : this.#resting.slice(0, due)) socket.resume();
    this.#resting = due === -1 ? [] : this.#resting.slice(due);
  }
}
