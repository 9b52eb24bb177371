/**
 * Connections of refused clients: their next request is not read for a while.
 *
 * Otherwise clients that repeat at once, whatever they are told, would be most of the work: a refusal costs a fifth of
 * an acquire. And with more than a thousand of them there is always a socket to read, so the event loop reads for
 * seconds (libuv: 48 times 1 024 sockets) before it gets to anything else, including writes to ZooKeeper.
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

  /**
   * Requests that were already read are still served.
   * @param now monotonic
   */
  add(socket: Socket, now: number): void {
    // Node resumes reading after this callback, when it has read this request to its end.
    process.nextTick(() => socket.pause());
    this.#resting.push({ socket, until: now + this.#restMs });
  }

  /** Resumes connections whose time is over. Call it often. */
  wake(now: number): void {
    const due = this.#resting.findIndex(({ until }) => until > now);
    if (due === 0) return;
    for (const { socket } of due === -1 ? this.#resting : this.#resting.slice(0, due)) socket.resume();
    this.#resting = due === -1 ? [] : this.#resting.slice(due);
  }
}
