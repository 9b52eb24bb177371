/**
 * A client of one replica over one connection, which it opens again when the server has closed it. What is refused for
 * a time is asked for again.
 */
import { HttpConnection, requestText, type Answer } from '../generator/http-connection.js';
import { sleep } from '../generator/meter.js';
import type { Tally } from './tally.js';

const AGAIN_AFTER_MS = 1_000;

export class Client {
  readonly #port: number;
  readonly #tally: Tally;
  #http: HttpConnection | undefined;

  constructor(port: number, tally: Tally) {
    this.#port = port;
    this.#tally = tally;
  }

  /** Until one of these statuses comes; the others are counted. @param whileTrue false ends it with undefined */
  async ask(
    statuses: readonly number[],
    request: { method: string; path: string; token?: string; body?: unknown },
    whileTrue: () => boolean = () => true,
  ): Promise<Answer | undefined> {
    const { method, path, token, body } = request;
    const headers = token === undefined ? '' : `Lease-Token: ${token}\r\n`;
    const text = requestText(method, path, headers, JSON.stringify(body ?? {}));
    while (whileTrue()) {
      const answer = await this.#send(text);
      if (statuses.includes(answer.status)) return answer;
      if (!whileTrue()) break;
      this.#tally.refused(answer);
      await sleep(AGAIN_AFTER_MS * (0.5 + Math.random()));
    }
    return undefined;
  }

  close(): void {
    this.#http?.close();
    this.#http = undefined;
  }

  async #send(text: string): Promise<Answer> {
    try {
      this.#http ??= await HttpConnection.open(this.#port);
      return await this.#http.send(text);
    } catch (error) {
      this.close();
      return { status: 0, body: JSON.stringify({ code: (error as Error).message }) };
    }
  }
}
