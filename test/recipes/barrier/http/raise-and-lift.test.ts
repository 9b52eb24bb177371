/** Barriers: raised, lifted, and waited at. */
import { describe, expect, test } from 'vitest';
import { isLifted, liftedAt, type BarrierView } from '../../../../src/recipes/barrier/barrier.js';
import type { Client, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import {
  spawnReplica,
  startPair,
  startReplica,
  STANDING_WATCHES,
  type Replica,
} from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';

const NAME = 'gate';

function raise(replica: Client, name = NAME): Promise<Reply> {
  return replica.call('PUT', `/v1/barriers/${name}`);
}

function lift(replica: Client, name = NAME): Promise<Reply> {
  return replica.call('DELETE', `/v1/barriers/${name}`);
}

function wait(replica: Client, waitMs = 20_000, name = NAME): Promise<Reply> {
  return replica.call('GET', `/v1/barriers/${name}?waitMs=${waitMs}`);
}

/** Resolves when so many wait at barriers in this replica. */
function untilWaiting(replica: Replica, count: number): Promise<unknown> {
  return eventually(
    `${count} wait`,
    async () => (await replica.metric('postern_waiters', { kind: 'barrier' })) === count,
  );
}

describe('a barrier', () => {
  test('is lifted until somebody raises it, and after somebody lifted it; doing so again does no harm', async () => {
    await using pair = await startPair();
    expect((await pair.a.call('GET', `/v1/barriers/${NAME}`)).body).toEqual({ name: NAME, raised: false });
    const raised = await raise(pair.a);
    expect(raised.status).toBe(201);
    expect(raised.body).toMatchObject({ name: NAME, raised: true, principal: 'anonymous', external: false });
    const again = await raise(pair.b);
    expect(again.status).toBe(200);
    expect(again.body).toEqual(raised.body);
    const shown = await pair.b.call('GET', `/v1/barriers/${NAME}`);
    expect(shown.body).toEqual(raised.body);
    expect(shown.headers['etag']).toBe(raised.headers['etag']);
    expect((await pair.b.call('GET', `/v1/barriers/${NAME}?consistency=stale`)).status).toBe(200);
    for (const replica of [pair.b, pair.a]) expect((await lift(replica)).status).toBe(204);
    expect((await pair.a.call('GET', `/v1/barriers/${NAME}`)).body).toEqual({ name: NAME, raised: false });
  });

  test('that another client raised or lifted, as Curator does, is the same', async () => {
    await using pair = await startPair();
    const { control, layout } = pair.a.gateway.context;
    await control.ensurePath(layout.barrier('default', NAME));
    expect((await pair.b.call('GET', `/v1/barriers/${NAME}`)).body).toMatchObject({
      raised: true,
      principal: null,
      external: true,
    });
    const waiting = wait(pair.b);
    await untilWaiting(pair.b, 1);
    await control.delete(layout.barrier('default', NAME));
    expect((await waiting).body).toEqual({ name: NAME, raised: false });
  });

  test('below which another client has put nodes is not lifted, and says why', async () => {
    await using pair = await startPair();
    const { control, layout } = pair.a.gateway.context;
    await control.ensurePath(`${layout.barrier('default', NAME)}/child`);
    const refused = await lift(pair.a);
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict' });
  });

  test('is listed while it is raised, in the order of the names, in its own namespace', async () => {
    await using pair = await startPair();
    for (const name of ['b2', 'a1', 'b1', 'c1']) await raise(pair.a, name);
    await lift(pair.b, 'c1');
    const list = await pair.b.expect(200, 'GET', '/v1/barriers');
    expect(list.items).toMatchObject([{ name: 'a1' }, { name: 'b1' }, { name: 'b2' }]);
    const page = await pair.b.expect(200, 'GET', '/v1/barriers?prefix=b&limit=1');
    expect(page.items).toMatchObject([{ name: 'b1', raised: true }]);
    const rest = await pair.b.expect(200, 'GET', `/v1/barriers?prefix=b&limit=1&pageToken=${page.nextPageToken}`);
    expect(rest.items).toMatchObject([{ name: 'b2' }]);
    expect(rest.nextPageToken).toBeUndefined();
    const headers = { namespace: 'other' };
    expect((await pair.a.expect(200, 'GET', '/v1/barriers', { headers })).items).toEqual([]);
    expect((await pair.a.call('GET', '/v1/barriers/a1', { headers })).body).toMatchObject({ raised: false });
  });
});

describe('who waits at a barrier', () => {
  test('goes on at once where it is not raised', async () => {
    await using pair = await startPair();
    expect((await wait(pair.a)).body).toEqual({ name: NAME, raised: false });
    expect(await pair.a.metric('postern_acquire_total', { kind: 'barrier', outcome: 'immediate' })).toBe(1);
  });

  test('sees a barrier that was raised through another replica a moment ago, also where others look already', async () => {
    await using pair = await startPair();
    await using events = await EventReader.open(pair.b.url, `/v1/barriers/${NAME}/events`);
    await events.next();
    for (let round = 0; round < 20; round += 1) {
      await raise(pair.a);
      expect((await wait(pair.b, 1)).body).toMatchObject({ raised: true });
      await lift(pair.a);
    }
  });

  test('goes on when it is lifted, through whichever replica', async () => {
    await using pair = await startPair();
    await raise(pair.a);
    const waiting = [wait(pair.a), wait(pair.b)];
    await Promise.all([untilWaiting(pair.a, 1), untilWaiting(pair.b, 1)]);
    let over = false;
    void Promise.race(waiting).then(() => (over = true));
    await throughout('both wait', () => !over);
    await lift(pair.b);
    for (const reply of waiting) expect((await reply).body).toEqual({ name: NAME, raised: false });
    expect(await pair.a.metric('postern_handoffs_total', { kind: 'barrier' })).toBe(1);
    expect(await pair.a.metric('postern_wakeups_total', { kind: 'barrier' })).toBe(1);
    expect(await pair.a.metric('postern_acquire_total', { kind: 'barrier', outcome: 'waited' })).toBe(1);
  });

  test('goes on when it is lifted and raised anew at once: the one it waited at was lifted', async () => {
    await using pair = await startPair();
    for (let round = 0; round < 25; round += 1) {
      await raise(pair.a);
      const waiting = [wait(pair.a), wait(pair.b)];
      await Promise.all([untilWaiting(pair.a, 1), untilWaiting(pair.b, 1)]);
      // In one go, so that there is hardly a moment in which it is not raised.
      const { control, layout } = pair.a.gateway.context;
      const path = layout.barrier('default', NAME);
      await control.multi([
        { type: 'delete', path },
        { type: 'create', path },
      ]);
      for (const reply of waiting) expect((await reply).body).toEqual({ name: NAME, raised: false });
      await lift(pair.b);
    }
  });

  test('is told that it is still raised when the wait is over', async () => {
    await using pair = await startPair();
    await raise(pair.a);
    expect((await wait(pair.b, 100)).body).toMatchObject({ raised: true });
    expect(await pair.b.metric('postern_acquire_total', { kind: 'barrier', outcome: 'refused' })).toBe(1);
    expect(await pair.b.metric('postern_waiters', { kind: 'barrier' })).toBe(0);
  });

  test('leaves nothing behind when it goes away', async () => {
    await using pair = await startPair();
    await raise(pair.a);
    const gone = new AbortController();
    const left = pair.b
      .call('GET', `/v1/barriers/${NAME}?waitMs=20000`, { signal: gone.signal })
      .catch(() => undefined);
    await untilWaiting(pair.b, 1);
    gone.abort();
    await left;
    await untilWaiting(pair.b, 0);
    expect(await pair.b.metric('postern_acquire_total', { kind: 'barrier', outcome: 'left' })).toBe(1);
  });

  test('is sent on by a replica that drains, and by one that is killed, and goes on at another', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using pair = await startPair({ root });
    await raise(pair.a);
    const cutOff = wait(doomed).catch(() => 'cut off');
    const drained = wait(pair.b);
    await untilWaiting(pair.b, 1);
    await doomed.kill();
    expect(await cutOff).toBe('cut off');
    await pair.b.gateway.stop();
    expect((await drained).body).toMatchObject({ code: 'draining', status: 503 });
    const repeated = [wait(pair.a), wait(pair.a)];
    await untilWaiting(pair.a, 2);
    await using late = await startReplica({ root });
    await lift(late);
    for (const reply of repeated) expect((await reply).body).toMatchObject({ raised: false });
  });

  test(
    'in a crowd of a thousand over two replicas goes on by one notification per replica (C18)',
    { timeout: scaled(120_000) },
    async () => {
      await using pair = await startPair();
      await raise(pair.a);
      const replicas = [pair.a, pair.b];
      const waiting = replicas.flatMap((replica) => Array.from({ length: 500 }, () => wait(replica, 50_000)));
      for (const replica of replicas) {
        await untilWaiting(replica, 500);
        await eventually('one watch', async () => (await replica.metric('postern_watches')) === STANDING_WATCHES + 1);
      }
      const before = await notifications(replicas);
      const startedAt = performance.now();
      await lift(pair.b);
      const times = await Promise.all(
        waiting.map(async (reply) => {
          expect((await reply).body).toEqual({ name: NAME, raised: false });
          return performance.now() - startedAt;
        }),
      );
      for (const replica of replicas)
        await eventually(
          'nothing is watched',
          async () => (await replica.metric('postern_watches')) === STANDING_WATCHES,
        );
      const received = (await notifications(replicas)).map((count, i) => count - (before[i] ?? 0));
      console.log(
        `1 000 waiters told within ${Math.round(Math.max(...times))} ms, notifications ${received.join(' + ')}`,
      );
      expect(received).toEqual([1, 1]);
      for (const replica of replicas) {
        expect(await replica.metric('postern_wakeups_total', { kind: 'barrier' })).toBe(500);
        expect(await replica.metric('postern_spurious_wakeups_total', { kind: 'barrier' })).toBe(0);
      }
    },
  );
});

describe('what is known of a barrier', () => {
  const seen: BarrierView = { ...liftedAt(0), raised: true, czxid: 100, zxid: 105, etag: '"100"' };

  test('is no lifting when the server has not seen the raising yet (C2)', () => {
    expect(isLifted(seen, liftedAt(99))).toBe(false);
    expect(isLifted(seen, liftedAt(100))).toBe(true);
    expect(isLifted(seen, { ...seen, czxid: 90, zxid: 99 })).toBe(false);
  });

  test('is a lifting when a later one is raised', () => {
    expect(isLifted(seen, seen)).toBe(false);
    expect(isLifted(seen, { ...seen, czxid: 120, zxid: 120 })).toBe(true);
  });
});

describe('long poll and stream', () => {
  test('tell of each change, and 304 when there was none', async () => {
    await using pair = await startPair();
    await using events = await EventReader.open(pair.b.url, `/v1/barriers/${NAME}/events`);
    expect(await events.next()).toMatchObject({ event: 'state', data: { name: NAME, raised: false } });
    const poll = async (etag: unknown, waitMs = 20_000): Promise<Reply> =>
      pair.b.call('GET', `/v1/barriers/${NAME}?waitMs=${waitMs}`, { headers: { 'if-none-match': String(etag) } });
    const lifted = await pair.a.call('GET', `/v1/barriers/${NAME}`);
    expect((await poll(lifted.headers['etag'], 50)).status).toBe(304);
    const untilRaised = poll(lifted.headers['etag']);
    const raised = await raise(pair.a);
    expect((await untilRaised).body).toEqual(raised.body);
    const told = await events.next();
    expect(told.data).toEqual(raised.body);
    expect(`"${told.id}"`).toBe(raised.headers['etag']);
    expect((await poll(raised.headers['etag'], 50)).status).toBe(304);
    const untilLifted = poll(raised.headers['etag']);
    await eventually('the poll waits', async () => (await pair.b.metric('postern_http_requests_in_flight')) === 2);
    await lift(pair.a);
    expect((await untilLifted).body).toEqual({ name: NAME, raised: false });
    expect((await events.next()).data).toEqual({ name: NAME, raised: false });
    expect(events.pending).toEqual([]);
  });
});

describe('bad input', () => {
  test('is refused, named, and raises nothing', async () => {
    await using pair = await startPair();
    for (const [method, path, field] of [
      ['PUT', '/v1/barriers/a%2Fb', 'name'],
      ['DELETE', `/v1/barriers/${'a'.repeat(201)}`, 'name'],
      ['GET', '/v1/barriers/a%20b', 'name'],
      ['GET', '/v1/barriers/gate?waitMs=-1', 'waitMs'],
      ['GET', '/v1/barriers/gate?waitMs=55001', 'waitMs'],
      ['GET', '/v1/barriers/gate?waitMs=soon', 'waitMs'],
      ['GET', '/v1/barriers/gate?consistency=none', 'consistency'],
      ['GET', '/v1/barriers/gate?size=1', 'size'],
      ['GET', '/v1/barriers/gate/events?maxMs=0', 'maxMs'],
      ['GET', '/v1/barriers?limit=0', 'limit'],
      ['GET', '/v1/barriers?pageToken=x', 'pageToken'],
      ['GET', '/v1/barriers?prefix=%2F', 'prefix'],
    ] as const) {
      const refused = await pair.a.call(method, path);
      expect(refused.status, path).toBe(422);
      expect(refused.body, path).toMatchObject({ code: 'invalid', field });
    }
    const refused = await pair.a.call('PUT', '/v1/barriers/gate', { body: { size: 1 } });
    expect(refused.body).toMatchObject({ code: 'invalid', field: 'size' });
    expect((await pair.a.call('POST', '/v1/barriers/gate')).status).toBe(405);
    expect((await pair.b.expect(200, 'GET', '/v1/barriers')).items).toEqual([]);
  });
});

test('ten thousand uses leave no znode', { timeout: scaled(240_000) }, async () => {
  await using pair = await startPair();
  const { control, layout } = pair.a.gateway.context;
  for (let batch = 0; batch < 50; batch += 1)
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        expect((await raise(i % 2 === 0 ? pair.a : pair.b, `g${i}`)).status).toBe(201);
        expect((await lift(pair.a, `g${i}`)).status).toBe(204);
      }),
    );
  await control.sync(layout.root);
  expect(await countBelow(control, layout.barriers('default'))).toBe(0);
});

function notifications(replicas: readonly Replica[]): Promise<number[]> {
  return Promise.all(replicas.map((replica) => replica.metric('postern_watch_events_total')));
}
