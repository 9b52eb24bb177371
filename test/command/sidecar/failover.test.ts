/**
 * Whatever happens to the leader's pod, its sidecar does not say any more that it leads once the heir's says so: judged
 * by fencing tokens. Both are asked all the time. Whoever asks after a higher token was answered must not be answered
 * with a lower one.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { rounds, seededRandom } from '../../support/scene.js';
import { spawnReplica, type ReplicaProcess } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';
import { startTcpProxy, type TcpProxy } from '../../support/zookeeper/tcp-proxy.js';
import { LONG_MS } from '../run-command.js';
import { startPod, type Pod } from './pod.js';

const ROUNDS = rounds(20);
/** Those that cost a TTL come this often: most rounds are to be quick. */
const SLOW_EVERY = 5;

let replicas: readonly [ReplicaProcess, ReplicaProcess];
beforeAll(async () => {
  const root = freshRoot();
  replicas = await Promise.all([spawnReplica({ root }), spawnReplica({ root })]);
});
afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
});

/** Asks all pods who leads, all the time. */
class Judge {
  readonly violations: string[] = [];
  answers = 0;
  /** The highest token that was answered. */
  highest = 0;
  #over = false;
  readonly #asking: Promise<void>[];

  constructor(pods: readonly Pod[]) {
    // Two at once: an answer that is on its way must not hide the next.
    this.#asking = pods.flatMap((pod) => [this.#ask(pod), this.#ask(pod)]);
  }

  async #ask(pod: Pod): Promise<void> {
    while (!this.#over) {
      const before = this.highest;
      const token = await pod.leads().catch(() => undefined);
      if (token === undefined) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      this.answers += 1;
      if (token < before) this.violations.push(`${pod.url} said ${token} when ${before} had been answered`);
      this.highest = Math.max(this.highest, token);
    }
  }

  async end(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#asking);
  }
}

interface Candidate {
  pod: Pod;
  proxies: TcpProxy[];
}

type Fault = (leader: Candidate, over: () => Promise<unknown>) => Promise<void>;

/** Each costs the leader the lead, and ends what it began when `over` resolves. */
const QUICK: Record<string, Fault> = {
  async 'program stopped'({ pod }, over) {
    pod.stopProgram();
    await over();
    pod.goOn();
  },
  async 'program killed'({ pod }, over) {
    await pod.killProgram();
    await over();
    await pod.startProgram();
  },
  async 'program not well'({ pod }, over) {
    await pod.answers({ '/healthz': 500 });
    await over();
    await pod.answers({ '/healthz': 200 });
  },
  async 'sidecar told to end'({ pod }, over) {
    pod.sidecar.child.kill('SIGTERM');
    await over();
    expect(await pod.sidecar.code()).toBe(0);
    await pod.startSidecar();
  },
};
const SLOW: Record<string, Fault> = {
  async 'sidecar killed'({ pod }, over) {
    await pod.killSidecar();
    await over();
    await pod.startSidecar();
  },
  async 'no gateway reached'({ proxies }, over) {
    for (const proxy of proxies) proxy.suspend();
    await over();
    for (const proxy of proxies) proxy.cut();
  },
};

describe('the sidecar of a leader that fails', () => {
  it(
    'answers 503 before the heir leads, whatever costs it the lead',
    { timeout: LONG_MS + ROUNDS * 10_000 },
    async () => {
      const election = randomUUID();
      const start = async (): Promise<Candidate> => {
        const ports = replicas.map(({ url }) => Number(new URL(url).port));
        const proxies = await Promise.all(ports.map((port) => startTcpProxy({ port, framed: false })));
        const url = proxies.map((proxy) => `http://${proxy.connectString}`).join();
        return { proxies, pod: await startPod(url, ['--elect', election]) };
      };
      const candidates = await Promise.all([start(), start()]);
      const judge = new Judge(candidates.map(({ pod }) => pod));
      const random = seededRandom('failovers');
      const counts: Record<string, number> = {};
      try {
        for (let round = 0; round < ROUNDS; round += 1) {
          const kinds = Object.entries(round % SLOW_EVERY === SLOW_EVERY - 1 ? SLOW : QUICK);
          const [kind, fault] = kinds[Math.floor(random() * kinds.length)] as (typeof kinds)[number];
          counts[kind] = (counts[kind] ?? 0) + 1;
          const led = await eventually(`${kind}: one leads, the other stands`, () => leaderOf(candidates), {
            withinMs: LONG_MS,
          });
          // The sidecar is not answered any more, though what it asks for is done: when the heir leads, no gateway has
          // told it that its lease has ended.
          for (const proxy of led.leader.proxies) proxy.pause('fromZooKeeper');
          await fault(led.leader, async () => {
            const token = async (): Promise<number> => (await led.heir.pod.leads()) ?? 0;
            await eventually(`${kind}: the heir leads`, async () => (await token()) > led.token, { withinMs: LONG_MS });
            for (const proxy of led.leader.proxies) proxy.heal();
          });
        }
      } finally {
        await judge.end();
        await Promise.all(candidates.map(({ pod }) => pod[Symbol.asyncDispose]()));
        await Promise.all(candidates.flatMap(({ proxies }) => proxies.map((proxy) => proxy[Symbol.asyncDispose]())));
      }
      console.log(`${ROUNDS} failovers (${JSON.stringify(counts)}), ${judge.answers} answers of leaders`);
      expect(judge.violations).toEqual([]);
      expect(judge.answers).toBeGreaterThan(ROUNDS);
    },
  );
});

async function leaderOf(
  candidates: readonly Candidate[],
): Promise<{ leader: Candidate; heir: Candidate; token: number } | undefined> {
  const answers = await Promise.all(candidates.map(({ pod }) => pod.ask('/me')));
  const states = answers.map(({ body }) => body.election);
  const leading = states.findIndex((state) => state?.state === 'leading');
  if (leading === -1 || states[1 - leading]?.state !== 'standing') return undefined;
  const [leader, heir] = [candidates[leading] as Candidate, candidates[1 - leading] as Candidate];
  return { leader, heir, token: states[leading].fencingToken };
}
