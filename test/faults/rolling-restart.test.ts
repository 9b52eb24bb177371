/**
 * Two replicas are restarted in turn, as a deployment does it, while clients of every kind go on: locks are held and
 * waited for, queues worked off, values written and watched. No lease is lost, no place in a line, no message and no
 * write; and whatever is refused says that the same request may be sent again, which is all that these clients do.
 */
import { expect, test } from 'vitest';
import type { LeaseHandle } from '../support/http/client.js';
import { eventually, passed } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { Balancer, type Outcome } from './balancer.js';

const TTL_MS = 6_000;
const HOLDERS = 4;
const WAITERS = 8;
const WAIT_MS = 50_000;
/** Longer than the balancer needs to see that a replica is not ready, on a busy machine too. */
const SETTINGS = { POSTERN_DRAIN_PAUSE_MS: String(scaled(2_000)), POSTERN_DRAIN_MS: '5000' };

interface Asked {
  leaseToken?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Clients in front of both replicas. Everything that was answered otherwise than hoped for is kept. */
class Site {
  /** Set when the clients shall come to an end. */
  over = false;
  answered = 0;
  readonly refused: Outcome[] = [];
  readonly unexpected: string[] = [];
  #turn = 0;

  constructor(readonly balancer: Balancer) {}

  /**
   * One request, at one replica or the other, until it is answered with one of these statuses. A 503 that says so is
   * repeated as it was.
   */
  async ask(statuses: readonly number[], method: string, path: string, asked: Asked = {}): Promise<Outcome> {
    const headers = { ...asked.headers, ...(asked.leaseToken !== undefined && { 'lease-token': asked.leaseToken }) };
    const body = asked.body === undefined ? '' : JSON.stringify(asked.body);
    for (;;) {
      const outcome = await this.balancer.send(this.balancer.choose((this.#turn += 1)), method, path, headers, body);
      this.answered += 1;
      if (statuses.includes(outcome.what as number)) return outcome;
      const mayRepeat = outcome.what === 202 || (outcome.what === 503 && outcome.retryable);
      if (!mayRepeat) {
        this.unexpected.push(`${method} ${path}: ${outcome.what} ${JSON.stringify(outcome.body)}`);
        throw new Error(this.unexpected.at(-1));
      }
      if (outcome.what === 503) this.refused.push(outcome);
      await passed(20);
    }
  }

  async lease(): Promise<LeaseHandle> {
    return (await this.ask([201], 'POST', '/v1/leases', { body: { ttlMs: TTL_MS } })).body as LeaseHandle;
  }

  /** Runs `round` until the end, with its number. */
  async repeat(round: (number: number) => Promise<void>): Promise<number> {
    let done = 0;
    for (; !this.over; done += 1) await round(done);
    return done;
  }
}

/** Holds a lock all the time, and hears at every heartbeat that nothing was lost. */
async function hold(site: Site, name: string): Promise<void> {
  const { leaseToken } = await site.lease();
  const path = `/v1/locks/${name}`;
  const { body } = await site.ask([200], 'POST', `${path}/acquire`, { leaseToken });
  const { holdId, fencingToken } = body as Grant;
  await site.repeat(async () => {
    const beat = await site.ask([200], 'POST', '/v1/leases/self/heartbeat', { leaseToken });
    expect((beat.body as { lost: unknown }).lost).toEqual([]);
    await passed(TTL_MS / 20);
  });
  const { body: lock } = await site.ask([200], 'GET', path);
  expect((lock as { holders: unknown }).holders).toMatchObject([{ holdId, fencingToken }]);
  await site.ask([204], 'POST', `${path}/release`, { leaseToken });
}

interface Grant {
  holdId: string;
  fencingToken: number;
}

interface Line {
  /** The fencing tokens of all that waited, in the order in which they had come. */
  granted: Promise<number[]>;
  /** Done when the site is over. */
  kept: Promise<unknown>;
}

/** Contenders that have come one after the other; the lock goes from hand to hand once `open` says so. */
async function line(site: Site, name: string, holdMs: number, open: () => boolean): Promise<Line> {
  const path = `/v1/locks/${name}`;
  const holder = await site.lease();
  await site.ask([200], 'POST', `${path}/acquire`, { leaseToken: holder.leaseToken });
  const granted: Promise<number>[] = [];
  for (let i = 0; i < WAITERS; i += 1) {
    const { leaseToken } = await site.lease();
    const body = { waitMs: WAIT_MS, requestId: `r${i}`, ...(i % 2 === 0 && { keepPlace: true }) };
    granted.push(
      (async () => {
        const { body: grant } = await site.ask([200], 'POST', `${path}/acquire`, { leaseToken, body });
        await passed(holdMs);
        await site.ask([204], 'POST', `${path}/release`, { leaseToken, body: { requestId: `r${i}` } });
        return (grant as Grant).fencingToken;
      })(),
    );
    await eventually(`${i + 1} wait for ${name}`, async () => {
      const { body: lock } = await site.ask([200], 'GET', path);
      return (lock as { waiterCount: number }).waiterCount === i + 1;
    });
  }
  const kept = site.repeat(async () => {
    await site.ask([200], 'POST', '/v1/leases/self/heartbeat', { leaseToken: holder.leaseToken });
    if (open()) await site.ask([204, 409], 'POST', `${path}/release`, { leaseToken: holder.leaseToken });
    await passed(TTL_MS / 20);
  });
  return { granted: Promise.all(granted), kept };
}

/**
 * Pushes with a messageId, claims and acknowledges; resolves to what was pushed and what was acknowledged, when the
 * queue is empty.
 */
async function work(site: Site): Promise<{ pushed: number; acknowledged: Set<number> }> {
  const acknowledged = new Set<number>();
  const { leaseToken } = await site.lease();
  let pushed = 0;
  let pushing = true;
  const producer = site
    .repeat(async (number) => {
      const messages = [{ body: number, messageId: `m${number}` }];
      await site.ask([201], 'POST', '/v1/queues/work/messages', { body: { messages } });
      pushed += 1;
      await passed(20);
    })
    .finally(() => (pushing = false));
  // The last push may be under way when the site is over.
  for (let round = 0; pushing || acknowledged.size < pushed; round += 1) {
    const body = { max: 10, waitMs: 200, requestId: `claim-${round}` };
    const claim = await site.ask([200, 204], 'POST', '/v1/queues/work/claim', { leaseToken, body });
    if (claim.what === 204) continue;
    const { items } = claim.body as { items: { claimId: string; body: number }[] };
    const claimIds = items.map(({ claimId }) => claimId);
    const acks = await site.ask([200], 'POST', '/v1/queues/work/ack', { leaseToken, body: { claimIds } });
    const { items: settled } = acks.body as { items: { status: number }[] };
    expect(settled.map(({ status }) => status)).toEqual(claimIds.map(() => 200));
    for (const { body: number } of items) acknowledged.add(number);
  }
  await producer;
  return { pushed, acknowledged };
}

/** Each value is written over the one before, and only over that one. */
async function write(site: Site): Promise<number> {
  let etag = '';
  return site.repeat(async (number) => {
    const headers = {
      'content-type': 'application/json',
      'idempotency-key': `write-${number}`,
      ...(etag === '' ? { 'if-none-match': '*' } : { 'if-match': etag }),
    };
    etag = (await site.ask([200, 201], 'PUT', '/v1/config/written', { headers, body: number })).etag ?? '';
    await passed(20);
  });
}

/** Long polls: the values that are seen never go back. */
async function poll(site: Site): Promise<void> {
  let etag: string | undefined;
  let last = -1;
  await site.repeat(async () => {
    const headers = etag === undefined ? undefined : { 'if-none-match': etag };
    const look = await site.ask([200, 304], 'GET', '/v1/config/written?waitMs=2000', headers && { headers });
    if (look.what === 304) return;
    expect(Number(look.body)).toBeGreaterThanOrEqual(last);
    last = Number(look.body);
    etag = look.etag;
  });
}

/** Streams that end in good order, whoever ends them: they say when to come back. */
async function stream(site: Site): Promise<void> {
  await site.repeat(async () => {
    const { body } = await site.ask([200], 'GET', '/v1/locks/held-0/events?maxMs=3000');
    expect(String(body)).toMatch(/(^|\n)event: reconnect\n/);
  });
}

test(
  'two replicas are restarted in turn under load: no lease, no place, no message and no write is lost',
  { timeout: scaled(300_000) },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root, settings: SETTINGS });
    await using b = await spawnReplica({ root, settings: SETTINGS });
    using balancer = new Balancer([a.url, b.url]);
    const site = new Site(balancer);
    let restarted = 0;

    const lines = await Promise.all([
      line(site, 'waited-for', 20, () => restarted === 2),
      line(site, 'handed-on', 1_000, () => true),
    ]);
    const holding = Array.from({ length: HOLDERS }, (_, i) => hold(site, `held-${i}`));
    const working = work(site);
    const writing = write(site);
    const adding = site.repeat((number) =>
      site
        .ask([200], 'POST', '/v1/counters/added/add', { body: { by: 1, requestId: `add-${number}` } })
        .then(() => passed(20)),
    );
    const all = Promise.all([...holding, working, writing, adding, poll(site), poll(site), stream(site)]);
    all.catch(() => (site.over = true));

    for (const replica of [a, b]) await restart(replica, site, balancer).then(() => (restarted += 1));
    const granted = await Promise.all(lines.map(({ granted }) => granted));
    site.over = true;
    await Promise.all([all, ...lines.map(({ kept }) => kept)]);
    expect(site.unexpected).toEqual([]);

    // Tokens grow with every grant: the order of the tokens is the order in which it was granted, and must be that of
    // arrival.
    for (const tokens of granted) expect(tokens).toEqual([...tokens].sort((x, y) => x - y));
    const { pushed, acknowledged } = await working;
    expect([...acknowledged].sort((x, y) => x - y)).toEqual(Array.from({ length: pushed }, (_, i) => i));
    const { body: queue } = await site.ask([200], 'GET', '/v1/queues/work');
    expect(queue).toMatchObject({ depth: 0 });
    const { body: written } = await site.ask([200], 'GET', '/v1/config/written');
    expect(written).toBe((await writing) - 1);
    const { body: counter } = await site.ask([200], 'GET', '/v1/counters/added');
    expect(counter).toMatchObject({ value: await adding });
    console.log(`${site.answered} requests, ${site.refused.length} of them told to repeat`);
  },
);

/** Told to stop, it ends by itself; started again, it takes part again. */
async function restart(replica: ReplicaProcess, site: Site, balancer: Balancer): Promise<void> {
  const before = site.answered;
  await eventually('there is load', () => site.answered > before + 100);
  expect(await replica.kill('SIGTERM')).toBe(0);
  await replica.restart();
  await eventually('it gets requests again', () => balancer.isReady(replica.url));
}
