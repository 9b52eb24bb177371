/** What happens in the replicas now: where requests wait, and how many are woken for each hand-over. */
import { Postern, type PosternOptions, type Schemas } from '../../client/index.js';

/** Names that each replica is asked for. */
const TOP = 1_000;
const COUNTED = /^postern_(wakeups|handoffs)_total(?:\{[^}]*\})? (\S+)/gm;

export interface Counts {
  wakeups: number;
  handoffs: number;
}

export interface Replica {
  readonly url: string;
  readonly contended: readonly Schemas['ContendedName'][];
  /** Undefined where the metrics have a port of their own. */
  readonly counts: Counts | undefined;
}

/** It did not answer. */
export interface Silent {
  readonly url: string;
  readonly error: unknown;
}

export class Replicas implements AsyncDisposable {
  readonly #clients: readonly (readonly [string, Postern])[];

  constructor(options: PosternOptions) {
    this.#clients = options.urls.map((url) => [url, new Postern({ ...options, urls: [url] })]);
  }

  /** @param patienceMs for how long one that does not serve is asked */
  look(patienceMs: number): Promise<(Replica | Silent)[]> {
    return Promise.all(
      this.#clients.map(async ([url, postern]) => {
        try {
          const { body } = await postern.request('GET /v1/contention', { query: { top: TOP }, patienceMs });
          const metrics = postern.request('GET /metrics', { patienceMs: 0 }).then((answer) => countsOf(answer.body));
          return { url, contended: body.items, counts: await metrics.catch(() => undefined) };
        } catch (error) {
          return { url, error };
        }
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map(([, postern]) => postern.close()));
  }
}

function countsOf(exposition: string): Counts {
  const counts = { wakeups: 0, handoffs: 0 };
  for (const [, which, value] of exposition.matchAll(COUNTED)) counts[which as keyof Counts] += Number(value);
  return counts;
}
