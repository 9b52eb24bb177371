/**
 * What a thousand who wait for one configuration key cost, how soon they know, and what ten thousand uses leave behind.
 */
import { describe, expect, test } from 'vitest';
import { get, keysOf, put, remove, write } from '../client.js';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { STANDING_WATCHES, startPair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';

const POLLS_PER_REPLICA = 500;
const USES = 10_000;
const AT_ONCE = 50;

describe('1 000 long polls on one key over two replicas', () => {
  test('are all answered by one put, at one notification per replica', { timeout: scaled(120_000) }, async () => {
    await using pair = await startPair();
    const replicas = [pair.a, pair.b];
    let etag: string | undefined;
    for (const [what, change] of [
      ['a rendezvous', 'made'],
      ['a change', 'changed'],
      ['another', 'changed again'],
    ] as const) {
      const headers = etag === undefined ? {} : { 'if-none-match': etag };
      const polls = replicas.flatMap((replica) =>
        Array.from({ length: POLLS_PER_REPLICA }, async () => {
          const { status, body } = await get(replica, 'app/watched', '?waitMs=50000', headers);
          return { status, body: body as string, at: performance.now() };
        }),
      );
      for (const replica of replicas)
        await eventually('everybody waits, at one watch', async () => {
          const inFlight = await replica.metric('postern_http_requests_in_flight');
          return inFlight === POLLS_PER_REPLICA && (await watches(replica)) === 1;
        });
      const before = await notifications(replicas);
      const startedAt = performance.now();
      etag = String((await put(pair.a, 'app/watched', change)).headers['etag']);
      const answers = await Promise.all(polls);
      for (const { status, body } of answers) expect([status, body]).toEqual([200, change]);
      for (const replica of replicas)
        await eventually('nobody waits any more', async () => (await watches(replica)) === 0);
      const received = (await notifications(replicas)).map((count, i) => count - (before[i] as number));
      expect(received, what).toEqual([1, 1]);
      const times = answers.map(({ at }) => at - startedAt).sort((a, b) => a - b);
      console.log(
        `${what}: 1 000 answered, median ${rank(times, 0.5)} ms, last ${rank(times, 1)} ms, notifications 1 + 1`,
      );
    }
  });
});

/** Values of znodes that the replica has asked for. */
async function readingsOf(replica: Replica): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  return Number(/^postern_zookeeper_request_duration_seconds_count\{op="getData"\} (\d+)$/m.exec(page)?.[1] ?? 0);
}

describe('10 000 keys of one prefix', () => {
  test(
    'are listed and watched; with one more, a stream says that they are too many, and reads them once',
    { timeout: scaled(120_000) },
    async () => {
      await using pair = await startPair();
      for (let i = 0; i < 10_000; i += 100)
        expect(
          (
            await write(
              pair.a,
              Array.from({ length: 100 }, (_, j) => ({ put: `many/k${i + j}`, value: 1 })),
            )
          ).status,
        ).toBe(200);
      expect(new Set(await keysOf(pair.b, 'many/')).size).toBe(10_000);
      await using stream = await EventReader.open(pair.b.url, '/v1/config?prefix=many/');
      expect((await stream.next()).data.items).toHaveLength(10_000);
      await put(pair.a, 'many/k5000', 'changed');
      expect(await stream.next()).toMatchObject({ event: 'changed', data: { key: 'many/k5000' } });
      await put(pair.a, 'many/one-more', 'x');
      const tooMany = { event: 'problem', data: { code: 'invalid', field: 'prefix', maxKeys: 10_000 } };
      expect(await stream.next()).toMatchObject(tooMany);
      await eventually('the stream has ended', () => stream.ended);
      await using another = await EventReader.open(pair.b.url, '/v1/config?prefix=many/');
      expect(await another.next()).toMatchObject(tooMany);
      const read = await readingsOf(pair.b);
      await using third = await EventReader.open(pair.b.url, '/v1/config?prefix=many/');
      expect(await third.next()).toMatchObject(tooMany);
      expect((await readingsOf(pair.b)) - read).toBeLessThan(100);
    },
  );
});

describe('10 000 uses of the configuration', () => {
  test('leave no znode behind when what was deleted is old enough', { timeout: scaled(240_000) }, async () => {
    await using pair = await startPair({ housekeeping: { everyMs: 200, idleMs: 3_600_000, tombstoneMs: 15_000 } });
    const { control, layout } = pair.a.gateway.context;
    const count = (): Promise<number> => countBelow(control, layout.config('default'));
    await put(pair.a, 'stays/here', 'x');
    const start = await count();
    let most = 0;
    for (let i = 0; i < USES / 2; i += AT_ONCE) {
      const keys = Array.from({ length: AT_ONCE }, (_, j) => `used/${(i + j) % 1_000}/${i + j}`);
      const replica = [pair.a, pair.b][(i / AT_ONCE) % 2]!;
      await Promise.all(
        keys.map(async (key) => {
          expect((await put(replica, key, 'x')).status).toBe(201);
          expect((await remove(replica, key)).status).toBe(204);
        }),
      );
      most = Math.max(most, await count());
    }
    await eventually('only what is used is left', async () => (await count()) === start, { withinMs: scaled(60_000) });
    console.log(`znodes: ${start} before, at most ${most} meanwhile, ${start} after ${USES} uses`);
    expect((await get(pair.b, 'stays/here')).body).toBe('x');
    // One key that is put and deleted over and over needs one znode.
    for (let i = 0; i < 200; i += 1) {
      await put(pair.a, 'one', String(i));
      await remove(pair.b, 'one');
    }
    expect(await count()).toBeLessThanOrEqual(start + 1);
  });
});

/** Those that are about this test. */
async function watches(replica: Replica): Promise<number> {
  return (await replica.metric('postern_watches')) - STANDING_WATCHES;
}

function notifications(replicas: readonly Replica[]): Promise<number[]> {
  return Promise.all(replicas.map((replica) => replica.metric('postern_watch_events_total')));
}

function rank(sorted: readonly number[], share: number): number {
  return Math.round(sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] as number);
}
