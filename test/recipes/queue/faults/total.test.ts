/**
 * Producers and consumers at three replicas, while consumers and replicas die at random: everything comes out once, in
 * order. `QUEUE_MESSAGES=100000` for the long run.
 */
import { env } from 'node:process';
import { expect, test } from 'vitest';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, passed } from '../../../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper, startEnsemble, startZooKeeper } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { QueueHistory } from './history.js';
import { seededRandom } from '../../../support/scene.js';

const PRODUCERS = 4;
const CONSUMERS = 8;
const TTL_MS = 4_000;
const BATCH_MAX = 8;
const TAKE_MAX = 10;
/** A consumer dies with what it has once in so many takes, and a request is cut off once in so many. */
const DIES_IN = 100;
const CUT_IN = 100;
/** Nothing is repeated longer than this. */
const STUCK_MS = scaled(60_000);

interface Scenario {
  mode: 'claim' | 'pop';
  messages: number;
  zookeeper: string;
  /** Called again and again until everything is over. */
  disturb: (replicas: readonly ReplicaProcess[], random: () => number) => Promise<void>;
}

interface Item {
  id: string;
  claimId: string;
  deliveries: number;
  body: string;
}

function messages(usual: number): number {
  const text = env['QUEUE_MESSAGES'] ?? '';
  if (text === '') return usual;
  if (!(Number(text) > 0)) throw new Error(`QUEUE_MESSAGES is "${text}": give a positive number`);
  return Number(text);
}

class Run {
  readonly history = new QueueHistory();
  readonly counts = { repeats: 0, deaths: 0, cuts: 0, disturbances: 0 };
  over = false;
  readonly #unpushed: string[];
  #slowestMs = 0;

  constructor(
    readonly scenario: Scenario,
    readonly replicas: readonly ReplicaProcess[],
    readonly random: () => number,
  ) {
    this.#unpushed = Array.from({ length: scenario.messages }, (_, i) => `m-${i}`).reverse();
  }

  async all(): Promise<void> {
    const disturbing = this.#disturb();
    const startedAt = performance.now();
    try {
      const consumers = Array.from({ length: CONSUMERS }, (_, i) => this.#consume(`consumer-${i}`));
      let pushedMs = 0;
      const consuming = Promise.all(consumers);
      const producing = Promise.all(Array.from({ length: PRODUCERS }, () => this.#produce())).then(() => {
        pushedMs = performance.now() - startedAt;
        return this.#untilEmpty();
      });
      await Promise.race([producing, consuming]);
      this.over = true;
      await consuming;
      const seconds = (performance.now() - startedAt) / 1_000;
      const { repeats, deaths, cuts, disturbances } = this.counts;
      console.log(
        `${this.scenario.mode}: ${this.scenario.messages} messages in ${seconds.toFixed(1)} s (pushed in ${(pushedMs / 1_000).toFixed(1)} s), ` +
          `${disturbances} kills, ${deaths} consumers died, ${cuts} requests cut off, ${repeats} repeated; slowest with its repetitions ${Math.round(this.#slowestMs)} ms`,
      );
    } finally {
      this.over = true;
      await disturbing;
    }
  }

  async #disturb(): Promise<void> {
    while (!this.over) {
      await this.scenario.disturb(this.replicas, this.random);
      this.counts.disturbances += 1;
    }
  }

  async #produce(): Promise<void> {
    for (;;) {
      const ids: string[] = [];
      for (let n = 1 + Math.floor(this.random() * BATCH_MAX); n > 0; n -= 1) {
        const id = this.#unpushed.pop();
        if (id !== undefined) ids.push(id);
      }
      if (ids.length === 0) return;
      const begin = performance.now();
      const body = { messages: ids.map((messageId) => ({ body: messageId, messageId })) };
      await this.#persist('push', (replica) => replica.call('POST', '/v1/queues/total/messages', { body }), [201]);
      this.history.pushes.push({ ids, begin, end: performance.now() });
    }
  }

  async #consume(consumer: string): Promise<void> {
    if (this.scenario.mode === 'pop') return this.#popAll(consumer);
    for (let life = 0; !this.over; life += 1) await this.#live(`${consumer}.${life}`);
  }

  async #popAll(consumer: string): Promise<void> {
    while (!this.over) {
      const begin = performance.now();
      const max = 1 + Math.floor(this.random() * TAKE_MAX);
      const replica = this.#someReplica();
      const reply = await replica
        .call('POST', '/v1/queues/total/pop', { body: { max, waitMs: 300 } })
        .catch(() => undefined);
      if (reply?.status === 200) this.#took(consumer, begin, (reply.body as { items: Item[] }).items);
      else if (reply?.status !== 204) {
        // Nobody knows, unless it says that nothing was done.
        if (reply === undefined || (reply.body as { code: string }).code === 'outcome-unknown')
          this.history.popsInDoubt += max;
        await passed(20 + this.random() * 50);
      }
    }
  }

  /** One consumer from its lease to its death. */
  async #live(consumer: string): Promise<void> {
    const created = await this.#persist(
      'lease',
      (replica) => replica.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS, requestId: consumer.padEnd(22, '-') } }),
      [201],
    );
    const { leaseToken } = created.body as LeaseHandle;
    for (let turn = 0; !this.over; turn += 1) {
      const begin = performance.now();
      const body = {
        max: 1 + Math.floor(this.random() * TAKE_MAX),
        waitMs: Math.floor(this.random() * 500),
        requestId: `turn-${turn}`,
      };
      const cut = this.random() * CUT_IN < 1;
      if (cut) {
        // The client goes away at any moment; whatever it would have got must come back, and the repetition may get it.
        this.counts.cuts += 1;
        const signal = AbortSignal.timeout(Math.floor(this.random() * 20));
        await this.#someReplica()
          .call('POST', '/v1/queues/total/claim', { body, leaseToken, signal })
          .catch(() => undefined);
      }
      const claimed = await this.#persist(
        'claim',
        (replica) => replica.call('POST', '/v1/queues/total/claim', { body, leaseToken }),
        [200, 204, 410],
      );
      if (claimed.status === 410) return;
      if (claimed.status === 204) continue;
      const { items } = claimed.body as { items: Item[] };
      this.#took(consumer, begin, items);
      if (this.random() * DIES_IN < 1) {
        this.counts.deaths += 1;
        return;
      }
      if (!(await this.#acknowledge(consumer, leaseToken, items))) return;
    }
  }

  /** @returns whether the lease lives */
  async #acknowledge(consumer: string, leaseToken: string, items: readonly Item[]): Promise<boolean> {
    const claimIds = items.map(({ claimId }) => claimId);
    const reply = await this.#persist(
      'ack',
      (replica) => replica.call('POST', '/v1/queues/total/ack', { body: { claimIds }, leaseToken }),
      [200, 410],
    );
    const end = performance.now();
    const results = (reply.body as { items?: { status: number }[] }).items;
    for (const [i, { body: id }] of items.entries()) {
      // The lease has ended, perhaps behind an acknowledgement whose answer was lost.
      const outcome = results === undefined ? 'unknown' : results[i]?.status === 200 ? 'done' : 'lost';
      this.history.acks.push({ id, consumer, end, outcome });
    }
    return reply.status === 200;
  }

  #took(consumer: string, begin: number, items: readonly Item[]): void {
    this.history.takes.push({
      consumer,
      begin,
      end: performance.now(),
      items: items.map(({ body, deliveries }) => ({ id: body, deliveries })),
    });
  }

  async #untilEmpty(): Promise<void> {
    const startedAt = performance.now();
    let before = '';
    for (let sameSince = startedAt; !this.over;) {
      const reply = await this.#someReplica()
        .call('GET', '/v1/queues/total')
        .catch(() => undefined);
      const view = reply?.status === 200 ? (reply.body as { depth: number; claimed: number }) : undefined;
      if (view?.depth === 0) return;
      const now = performance.now();
      const after = `${this.history.takes.length} takes, ${JSON.stringify(view)}`;
      if (this.history.takes.length !== Number(before.split(' ')[0])) sameSince = now;
      if (now - sameSince > STUCK_MS) throw new Error(`nothing is taken any more: ${after}`);
      before = after;
      await passed(100);
    }
  }

  #someReplica(): ReplicaProcess {
    return this.replicas[Math.floor(this.random() * this.replicas.length)] as ReplicaProcess;
  }

  /** As a client should: the same request again, wherever, until it is answered. */
  async #persist(
    what: string,
    ask: (replica: ReplicaProcess) => Promise<Reply>,
    done: readonly number[],
  ): Promise<Reply> {
    const startedAt = performance.now();
    for (;;) {
      const reply = await ask(this.#someReplica()).catch(() => undefined);
      if (reply !== undefined && done.includes(reply.status)) {
        this.#slowestMs = Math.max(this.#slowestMs, performance.now() - startedAt);
        return reply;
      }
      if (reply !== undefined && reply.status < 500) throw new Error(`${what} answered ${JSON.stringify(reply.body)}`);
      if (performance.now() - startedAt > STUCK_MS)
        throw new Error(`${what} does not come through: ${JSON.stringify(reply?.body)}`);
      this.counts.repeats += 1;
      await passed(20 + this.random() * 60);
    }
  }
}

async function run(scenario: Scenario): Promise<void> {
  const random = seededRandom(`queue, ${scenario.mode}`);
  const root = freshRoot();
  const options = { root, zookeeper: scenario.zookeeper };
  await using a = await spawnReplica(options);
  await using b = await spawnReplica(options);
  await using c = await spawnReplica(options);
  const replicas = [a, b, c];
  const run = new Run(scenario, replicas, random);
  await run.all();
  expect(run.history.violations(scenario.mode)).toEqual([]);
  expect(run.history.pushes.flatMap(({ ids }) => ids)).toHaveLength(scenario.messages);
  for (const replica of replicas)
    expect(replica.output.split('\n').filter((line) => line.includes('nobody was told'))).toEqual([]);
}

/** Kills a replica, and starts it again at once. */
async function killReplica(replicas: readonly ReplicaProcess[], random: () => number): Promise<void> {
  await passed(500 + random() * 2_000);
  const victim = replicas[Math.floor(random() * replicas.length)] as ReplicaProcess;
  await victim.kill();
  await victim.restart();
}

const CLAIMED = messages(2_000);
const POPPED = messages(1_500);
const IN_ENSEMBLE = messages(800);
const AT_ONE_SERVER = messages(300);

test(
  'every message is acknowledged once and in order, while consumers and replicas are killed',
  { timeout: scaled(120_000) + CLAIMED * 20 },
  () => run({ mode: 'claim', messages: CLAIMED, zookeeper: sharedZooKeeper(), disturb: killReplica }),
);

test(
  'every message is popped at most once and in order, while replicas are killed',
  { timeout: scaled(120_000) + POPPED * 20 },
  () => run({ mode: 'pop', messages: POPPED, zookeeper: sharedZooKeeper(), disturb: killReplica }),
);

test(
  'every message is acknowledged once and in order, while leaders of the ensemble are killed',
  { timeout: scaled(180_000) + IN_ENSEMBLE * 100 },
  async () => {
    await using ensemble = await startEnsemble();
    await run({
      mode: 'claim',
      messages: IN_ENSEMBLE,
      zookeeper: ensemble.connectString,
      disturb: async (_replicas, random) => {
        await passed(1_000 + random() * 2_000);
        const leader = await ensemble.leader();
        await leader.kill();
        await eventually('there is another leader', async () => (await ensemble.leader()) !== leader, {
          withinMs: timing.processMs,
        });
        await passed(random() * 1_000);
        await leader.restart();
        await eventually('it serves', async () => (await leader.mode()) !== undefined, { withinMs: timing.processMs });
      },
    });
  },
);

test(
  'every message is acknowledged once and in order, while the only server is killed and comes back',
  { timeout: scaled(180_000) + AT_ONE_SERVER * 100 },
  async () => {
    await using zookeeper = await startZooKeeper();
    await run({
      mode: 'claim',
      messages: AT_ONE_SERVER,
      zookeeper: zookeeper.connectString,
      disturb: async (_replicas, random) => {
        await passed(2_000 + random() * 3_000);
        await zookeeper.kill();
        await passed(random() * 1_500);
        await zookeeper.restart();
      },
    });
  },
);
