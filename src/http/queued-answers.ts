/**
 * Answers to requests that a client sent before it had read the answers to earlier ones: they wait for their turn on the connection.
 *
 * When the connection ends first, node says `close` to the answer whose turn it is, and nothing to the others; who waits for them would wait
 * for ever. So they are told here.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export class QueuedAnswers {
  /** To be told of every request. */
  readonly onRequest = ({ socket }: { socket: AnsweringSocket }, response: ServerResponse): void => {
    const open = socket[OPEN] ?? begin(socket);
    open.push(response);
    response.once('close', () => void open.splice(open.indexOf(response), 1));
  };
}

/** Of a connection, in the order of the requests: those whose answers have not been written yet. */
const OPEN = Symbol('open');
type AnsweringSocket = Socket & { [OPEN]?: ServerResponse[] };

function begin(socket: AnsweringSocket): ServerResponse[] {
  const open: ServerResponse[] = [];
  socket[OPEN] = open;
  socket.once('close', () => {
    for (const response of [...open]) {
      if (response.socket !== null) continue;
      response.destroy();
      response.emit('close');
    }
  });
  return open;
}
