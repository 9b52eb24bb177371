/**
 * Several times what a replica can do, as it is seen by those who come, and by those who have leases there meanwhile.
 *
 * What it can do is measured first, by a crowd that it is not too much for.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LeaseHandle, Reply } from '../../support/http/client.js';
import { expectContract } from '../../support/http/contract.js';
import { eventually, passed } from '../../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { parseAnswer } from '../client.js';
import type { CrowdJob, CrowdResult } from './overload-crowd.js';

const CROWD = new URL('./overload-crowd.ts', import.meta.url).pathname;
/** A quarter of the default, so that the connections are a crowd on a fast machine, too. */
const DELAY_MS = 25;
const LEASES = 60;
const TTL_MS = scaled(10_000);
const HEARTBEATS_PER_TTL = 3;
const FEW = 64;
const MANY = 1_800;
/** A pause while its rate was measured makes four times that too little: then twice as many come. */
const TIMES = [4, 8, 16];
const ENOUGH_REFUSED = 100;
const WARM_UP_SECONDS = 3;
const MEASURED_SECONDS = 2;
const OVERLOADED_SECONDS = 5;
const FIRST_AFTERWARDS = 20;

let child: ChildProcess;
beforeAll(() => {
  child = fork(CROWD, { execArgv: ['--import', 'tsx'] });
});
afterAll(() => child.kill());

async function crowd(job: CrowdJob): Promise<CrowdResult> {
  const answered = once(child, 'message');
  child.send(job);
  const [result] = (await answered) as [CrowdResult];
  return result;
}

/** What comes of a crowd that is too much for a replica that does `rate` pushes per second, and what it pushes to. */
async function overload(port: number, rate: number): Promise<{ queue: string; overloaded: CrowdResult }> {
  for (const times of TIMES) {
    const queue = `crowded-${times}`;
    const job = { port, queue, connections: MANY, seconds: OVERLOADED_SECONDS, rate: times * rate };
    const overloaded = await crowd(job);
    if (overloaded.refused.count >= ENOUGH_REFUSED || times === TIMES.at(-1)) return { queue, overloaded };
  }
  throw new Error('there is nothing to try');
}

interface Holder {
  readonly lease: LeaseHandle;
  readonly name: string;
  readonly holdId: string;
  readonly fencingToken: number;
}

/** One after the other: a replica that has just started needs its time for each, and they are no crowd. */
async function holders(replica: ReplicaProcess, beats: Heartbeats): Promise<Holder[]> {
  const all: Holder[] = [];
  for (let i = 0; i < LEASES; i += 1) {
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    beats.add(lease);
    const name = `kept-${i}`;
    all.push({ lease, name, ...(await replica.hold(name, lease)) });
  }
  return all;
}

/** Heartbeats each lease three times per TTL until told to stop. */
class Heartbeats {
  readonly #replica: ReplicaProcess;
  readonly #beating: Promise<void>[] = [];
  readonly #failed: unknown[] = [];
  #times: number[] = [];
  #over = false;

  constructor(replica: ReplicaProcess) {
    this.#replica = replica;
  }

  add(lease: LeaseHandle): void {
    this.#beating.push(this.#beat(lease));
  }

  /** Those so far do not count. */
  reset(): void {
    this.#times = [];
  }

  async stop() {
    this.#over = true;
    await Promise.all(this.#beating);
    const times = this.#times.sort((x, y) => x - y).map(Math.round);
    const median = times[times.length >> 1] ?? NaN;
    return { failed: this.#failed, count: times.length, p50: median, max: times.at(-1) ?? NaN };
  }

  async #beat(lease: LeaseHandle): Promise<void> {
    await passed(Math.random() * (TTL_MS / HEARTBEATS_PER_TTL));
    while (!this.#over) {
      const from = performance.now();
      const { status, body } = await this.#untilReached(lease);
      const ms = performance.now() - from;
      this.#times.push(ms);
      if (status !== 200 || (body as { lost: unknown[] }).lost.length > 0) this.#failed.push(body);
      await passed(Math.max(0, TTL_MS / HEARTBEATS_PER_TTL - ms));
    }
  }

  /** As a client does: ZooKeeper gets no time on this machine now and then, which is no refusal of the replica's. */
  async #untilReached(lease: LeaseHandle): Promise<Reply> {
    for (;;) {
      const reply = await this.#replica.heartbeat(lease);
      if ((reply.body as { code?: string }).code !== 'zookeeper-unavailable') return reply;
    }
  }
}

async function metric(replica: ReplicaProcess, line: string): Promise<number> {
  const { body } = await replica.call('GET', '/metrics');
  return Number(
    String(body)
      .split('\n')
      .find((one) => one.startsWith(`${line} `))
      ?.split(' ')
      .at(-1),
  );
}

test(
  'at four times what it can do, a replica refuses early, loses no lease and no message, and is well at once afterwards',
  { timeout: scaled(90_000) },
  async () => {
    const settings = { POSTERN_OVERLOAD_DELAY_MS: String(DELAY_MS), POSTERN_LOG_LEVEL: 'info' };
    await using replica = await spawnReplica({ settings });
    const port = Number(new URL(replica.url).port);
    const heartbeats = new Heartbeats(replica);
    const held = await holders(replica, heartbeats);

    // Its code is compiled meanwhile; what it can do shows only then.
    await crowd({ port, queue: 'calm', connections: FEW, seconds: WARM_UP_SECONDS });
    const measured = await crowd({ port, queue: 'calm', connections: FEW, seconds: MEASURED_SECONDS });
    const rate = measured.pushed.count / measured.seconds;
    heartbeats.reset();
    const { queue, overloaded } = await overload(port, rate);
    const reached = (overloaded.pushed.count + overloaded.refused.count) / overloaded.seconds / rate;

    for (let i = 0; i < FIRST_AFTERWARDS; i += 1) {
      const body = { messages: [{ body: 'afterwards' }] };
      await replica.expect(201, 'POST', '/v1/queues/afterwards/messages', { body });
    }
    const beats = await heartbeats.stop();
    const { sample, ...figures } = overloaded;
    console.log(JSON.stringify({ rate: Math.round(rate), reached, measured: measured.pushed, ...figures, beats }));

    // Nobody's lease was lost, and nobody's lock.
    expect(beats.failed).toEqual([]);
    expect(beats.max).toBeLessThan(TTL_MS / 2);
    for (const { lease, name, holdId, fencingToken } of held)
      expect(await replica.hold(name, lease)).toMatchObject({ holdId, fencingToken, alreadyHeld: true });

    // The refusals.
    expect(overloaded.others).toEqual({});
    expect(overloaded.refused.count).toBeGreaterThanOrEqual(ENOUGH_REFUSED);
    const { head, body } = sample as NonNullable<typeof sample>;
    expectContract('POST', `/v1/queues/${queue}/messages`, parseAnswer(`${head}\r\n\r\n${body}`));
    expect(Object.keys(overloaded.retryAfter).length).toBeGreaterThan(1);
    expect(overloaded.refused.p50).toBeLessThan(overloaded.pushed.p50);
    expect(overloaded.refused.p50).toBeLessThan(scaled(1_000));

    // Those that were served, and what became of what they brought.
    expect(overloaded.pushed.count).toBeGreaterThan(0);
    // Once for each connection, and as long again: a machine that others keep busy may need longer than that.
    expect(overloaded.pushed.p50).toBeLessThan(Math.max(scaled(3_000), (2_000 * MANY) / rate));
    expect(overloaded.pushed.p99).toBeLessThan(0.75 * TTL_MS);
    const { depth } = (await replica.expect(200, 'GET', `/v1/queues/${queue}`)) as { depth: number };
    expect(depth).toBe(overloaded.pushed.count);

    // The operator's view.
    // Which of the two is late first depends on the machine: what waits for ZooKeeper, or the event loop.
    const ofBoth = async (name: string): Promise<number> =>
      (await metric(replica, `${name}{late="event_loop"}`)) + (await metric(replica, `${name}{late="zookeeper"}`));
    expect(await ofBoth('postern_overload_refusals_total')).toBeGreaterThan(0);
    await eventually('it calls itself calm', async () => (await ofBoth('postern_overloaded')) === 0);
    expect(replica.output).toMatch(/"level":"warn".*"overloaded: /);
    expect((await replica.call('GET', '/readyz')).status).toBe(200);
  },
);
