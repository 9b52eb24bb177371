/**
 * Clients do whatever comes to their minds at two replicas, which are killed and started again meanwhile; then it is decided for every object
 * whether what they were told could have happened one after the other.
 *
 * `HISTORY_KILLS` is how often a replica is killed before the clients stop; `FAULT_SEED` repeats the choices.
 */
import { env } from 'node:process';
import { expect, test } from 'vitest';
import { History, NotApplied, now } from '../histories/history.js';
import type { Workload } from '../histories/workload.js';
import { workloads } from '../histories/workloads/index.js';
import type { Client } from '../support/client.js';
import { passed } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { seededRandom } from './scene.js';

const KILLS = Number(env['HISTORY_KILLS'] ?? 4);
const CLIENTS = 3;
const OBJECTS = 2;
const KILL_EVERY_MS = 1_000;
/** Objects are left alone after this. */
const RENEWED_MS = 5_000;
/** Between two operations of a client, so that a history stays short while replicas start. */
const PAUSE_MS = 50;

/** Clients of one kind. */
class Crowd<I, O> {
  readonly history = new History<I, O>();

  constructor(
    readonly workload: Workload<I, O>,
    readonly replicas: readonly Client[],
    readonly random: () => number,
  ) {}

  async run(signal: AbortSignal): Promise<void> {
    const { random, replicas, workload } = this;
    const pick = (count: number): number => Math.floor(random() * count);
    const scene = {
      random,
      signal,
      replica: () => replicas[pick(replicas.length)] as Client,
      object: () => `${workload.kind}-${pick(OBJECTS)}-${Math.floor(now() / RENEWED_MS)}`,
    };
    const clients = Array.from({ length: CLIENTS }, async (_, i) => {
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
    await Promise.all(
      history.objects.map(async (object, i) =>
        workload.settle?.(history, replicas[i % replicas.length] as Client, object),
      ),
    );
    return history.objects.flatMap((object) =>
      workload.check(history.of(object), { touchLagMs: 0 }).map((complaint) => `${object}: ${complaint}`),
    );
  }

  get unknown(): number {
    return this.history.objects
      .flatMap((object) => this.history.of(object))
      .filter(({ output }) => output === undefined).length;
  }
}

test(
  'all that clients are told is linearizable while replicas are killed',
  { timeout: scaled(60_000) + KILLS * 10 * KILL_EVERY_MS },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    const replicas: ReplicaProcess[] = [a, b];
    const random = seededRandom('histories');
    const crowds = Object.values(workloads).map((workload) => new Crowd<unknown, unknown>(workload, replicas, random));
    const over = new AbortController();
    const doing = Promise.all(crowds.map((crowd) => crowd.run(over.signal)));
    let kills = 0;
    const killing = (async () => {
      for (; kills < KILLS && !over.signal.aborted; kills += 1) {
        await passed((0.5 + random()) * KILL_EVERY_MS);
        const victim = replicas[kills % 2] as ReplicaProcess;
        await victim.kill();
        await victim.restart();
      }
    })();
    await Promise.race([killing, doing]).finally(() => over.abort());
    await Promise.all([killing, doing]);
    const complaints = await Promise.all(crowds.map((crowd) => crowd.complaints()));
    for (const crowd of crowds) {
      const { history, workload, unknown } = crowd;
      console.log(`${workload.kind}: ${history.size} operations, ${unknown} of unknown outcome, ${kills} kills`);
    }
    expect(complaints.flat()).toEqual([]);
  },
);
