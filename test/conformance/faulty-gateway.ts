/** A proxy in front of a gateway that does what a scenario says: answers itself, loses an answer, or falls silent. */
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Fault {
  /** How the paths end that it befalls. */
  path: string;
  times: number;
  /** What to answer in place of the gateway; without it, the gateway's answer is lost and the connection cut. */
  answer?: { status: number; code: string; retryable: boolean; outcome: string };
  /** What answers in place of the gateway and is none, such as a proxy. */
  page?: { status: number; headers: Record<string, string>; text: string };
}

export interface Seen {
  path: string;
  requestId: unknown;
}

export class FaultyGateway implements AsyncDisposable {
  readonly #server: Server;
  readonly #target: string;
  readonly #faults: Fault[] = [];
  /** All requests so far. */
  readonly seen: Seen[] = [];
  #isSilent = false;

  private constructor(target: string) {
    this.#target = target;
    this.#server = createServer((incoming, response) => void this.#serve(incoming, response));
  }

  static async start(target: string): Promise<FaultyGateway> {
    const proxy = new FaultyGateway(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  befall(fault: Fault): void {
    this.#faults.push(fault);
  }

  /** From now on no request is passed on, and none is answered. */
  fallSilent(): void {
    this.#isSilent = true;
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { url: path = '', method, headers } = incoming;
    const { requestId } = JSON.parse(body.length > 0 ? body.toString() : '{}') as { requestId?: unknown };
    this.seen.push({ path, requestId });
    if (this.#isSilent) return;
    const fault = this.#faults.find(({ path: end, times }) => path.endsWith(end) && times > 0);
    if (fault) fault.times -= 1;
    if (fault?.page) {
      const { status, headers: own, text } = fault.page;
      response.writeHead(status, own).end(text);
      return;
    }
    if (fault?.answer) {
      const { status } = fault.answer;
      const problem = {
        type: '/problems/x',
        title: 'x',
        detail: 'as the scenario says',
        instance: '0',
        ...fault.answer,
      };
      response.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify(problem));
      return;
    }
    const passedOn = request(this.#target + path, { method, headers }, (answer) => {
      if (fault) {
        answer.resume();
        answer.on('end', () => response.destroy());
        return;
      }
      if (!this.#isSilent) answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.headers));
    });
    passedOn.on('error', () => response.destroy());
    response.on('close', () => passedOn.destroy());
    passedOn.end(body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}
