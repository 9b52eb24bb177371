/**
 * A balancer in front of replicas, as a client sees it: kept connections, and no request for a replica that says it is
 * not ready.
 */
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';

const PROBE_EVERY_MS = 50;

export interface Outcome {
  /** The status, or the code of the error of the connection. */
  what: number | string;
  retryable: boolean;
  /** Parsed when it is JSON. */
  body: unknown;
  etag: string | undefined;
  /** Whether it went over a connection that had been used before. */
  reused: boolean;
}

/**
 * What stands before the replicas: knows which ones say that they are ready, as a balancer does, and keeps connections.
 */
export class Balancer implements Disposable {
  readonly #ready = new Map<string, boolean>();
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  readonly #probes: NodeJS.Timeout[];

  constructor(readonly urls: readonly string[]) {
    this.#probes = urls.map((url) => {
      this.#ready.set(url, true);
      return setInterval(() => void this.#probe(url), PROBE_EVERY_MS);
    });
  }

  /** The preferred one when it is ready, else another. */
  choose(preferred: number): string {
    const order = this.urls.map((_, i) => this.urls[(preferred + i) % this.urls.length] as string);
    return order.find((url) => this.#ready.get(url)) ?? (order[0] as string);
  }

  async send(url: string, method: string, path: string, headers: Record<string, string>, body = ''): Promise<Outcome> {
    const outgoing = request(url + path, { method, headers, agent: this.#agent });
    outgoing.end(body);
    try {
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      let text = '';
      for await (const chunk of response) text += String(chunk);
      const isJson = text !== '' && /json/.test(response.headers['content-type'] ?? '');
      const body: unknown = isJson ? JSON.parse(text) : text;
      const { retryable = false } = body as { retryable?: boolean };
      const { etag } = response.headers;
      return { what: response.statusCode ?? 0, retryable, body, etag, reused: outgoing.reusedSocket };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      return { what: code ?? message, retryable: false, body: '', etag: undefined, reused: outgoing.reusedSocket };
    }
  }

  isReady(url: string): boolean {
    return this.#ready.get(url) === true;
  }

  async #probe(url: string): Promise<void> {
    const ready = await fetch(`${url}/readyz`, { headers: { connection: 'close' } }).then(
      ({ status }) => status === 200,
      () => false,
    );
    this.#ready.set(url, ready);
  }

  [Symbol.dispose](): void {
    for (const probe of this.#probes) clearInterval(probe);
    this.#agent.destroy();
  }
}
