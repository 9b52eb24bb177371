/**
 * Answers to requests that a client sent before it had read the answers to earlier ones: they wait for their turn on the connection.
 *
 * When the connection ends first, node says `close` to the answer whose turn it is, and nothing to the others; who waits for them would wait
 * for ever. So they are told here.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export class QueuedAnswers {
  readonly #open = new WeakMap<Socket, Set<ServerResponse>>();

  /** To be told of every request. */
  readonly onRequest = ({ socket }: IncomingMessage, response: ServerResponse): void => {
    const open = this.#open.get(socket) ?? this.#begin(socket);
    open.add(response);
    response.once('close', () => open.delete(response));
  };

  #begin(socket: Socket): Set<ServerResponse> {
    const open = new Set<ServerResponse>();
    this.#open.set(socket, open);
    socket.once('close', () => {
      for (const response of [...open]) {
        if (response.socket !== null) continue;
        response.destroy();
        response.emit('close');
      }
    });
    return open;
  }
}
