/** Clients of one kind that ask any of some replicas, and what they were told, judged. */
import { passed } from '../../support/eventually.js';
import type { Client } from '../../support/http/client.js';
import { History, NotApplied, now } from '../history.js';
import { UNDECIDED } from '../linearizable.js';
import { encodeOperation, type Workload } from '../workload.js';

const OBJECTS = 2;
/** Between two operations of a client, so that a history stays short while replicas start. */
const PAUSE_MS = 50;

interface CrowdOptions {
  /** Of the leases. */
  ttlMs: number;
  clients?: number;
  /** Objects are left alone after this. */
  renewedMs?: number;
}

export class Crowd<I, O> {
  readonly history = new History<I, O>();

  constructor(
    readonly workload: Workload<I, O>,
    readonly replicas: readonly Client[],
    readonly random: () => number,
    readonly options: CrowdOptions,
  ) {}

  async run(signal: AbortSignal): Promise<void> {
    const { random, replicas, workload } = this;
    const { ttlMs, clients: count = 3, renewedMs = 5_000 } = this.options;
    const pick = (count: number): number => Math.floor(random() * count);
    const scene = {
      random,
      signal,
      ttlMs,
      replica: () => replicas[pick(replicas.length)] as Client,
      object: () => `${workload.kind}-${pick(OBJECTS)}-${Math.floor(now() / renewedMs)}`,
    };
    const clients = Array.from({ length: count }, async (_, i) => {
      const act = await workload.start(this.history, scene, `client-${i}`);
      while (!signal.aborted) {
        await passed(random() * 2 * PAUSE_MS);
        await act().catch((error: unknown) => {
          if (!(error instanceof NotApplied)) throw error;
        });
      }
    });
    await Promise.all(clients);
  }

  async complaints(): Promise<string[]> {
    const { history, workload, replicas } = this;
    for (const [i, object] of history.objects.entries())
      await workload.settle?.(history, replicas[i % replicas.length] as Client, object);
    return history.objects.flatMap((object) => {
      const operations = history.of(object);
      // A search that was given up says nothing: on a busy machine many outcomes are unknown.
      const found = workload.check(operations, { touchLagMs: 0 }).filter((one) => !one.startsWith(UNDECIDED));
      if (found.length > 0) console.log([`history of ${object}:`, ...operations.map(encodeOperation)].join('\n'));
      return found.map((complaint) => `${object}: ${complaint}`);
    });
  }

  get unknown(): number {
    return this.history.objects
      .flatMap((object) => this.history.of(object))
      .filter(({ output }) => output === undefined).length;
  }
}
