/**
 * The text protocols of Redis and beanstalkd: a request, then one line, and a second one when the first announces a
 * body. Bodies have no line ends.
 */
import { connect, type Socket } from 'node:net';

const HOST = '127.0.0.1';
const LINE_END = '\r\n';

export class LineConnection {
  readonly #socket: Socket;
  readonly #announcesBody: RegExp;
  #received = '';
  #waiting: { resolve: (lines: string[]) => void; reject: (error: Error) => void } | undefined;

  private constructor(socket: Socket, announcesBody: RegExp) {
    this.#socket = socket;
    this.#announcesBody = announcesBody;
    socket.setNoDelay(true);
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => this.#onData(chunk));
    socket.on('error', () => {}); // told by close
    socket.on('close', () => this.#waiting?.reject(new Error('the server closed the connection')));
  }

  static open(port: number, announcesBody: RegExp): Promise<LineConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: HOST });
      socket.once('error', reject);
      socket.once('connect', () => resolve(new LineConnection(socket, announcesBody)));
    });
  }

  send(request: string): Promise<string[]> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(request, 'latin1');
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #onData(chunk: string): void {
    this.#received += chunk;
    if (!this.#received.endsWith(LINE_END)) return;
    const lines = this.#received.slice(0, -LINE_END.length).split(LINE_END);
    if (lines.length < (this.#announcesBody.test(lines[0] as string) ? 2 : 1)) return;
    this.#received = '';
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(lines);
  }
}
