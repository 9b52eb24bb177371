/** Elections: what the leader says, and who sees it. */
import { describe, expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { Noise, openReferenceSession, ServerNoise } from '../../../support/noise.js';
import { startPair } from '../../../support/start-gateway.js';
import { timing } from '../../../support/timing.js';
import { campaign, electionOf, leaseFor, speak } from '../client.js';
import { nodesOf } from '../nodes.js';

describe('a leader', () => {
  test('proclaims another value, which a late repeat of its campaign does not undo (T11)', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const { candidateId, fencingToken } = (await campaign(pair.a, 'boss', lease, { value: 'old' })).body as {
      candidateId: string;
      fencingToken: number;
    };
    const proclaimed = await speak(pair.b, 'boss', 'proclaim', lease, { value: ['new'] });
    expect(proclaimed.status).toBe(200);
    expect(proclaimed.body).toMatchObject({ candidateId, fencingToken, leaseId: lease.leaseId });
    await campaign(pair.a, 'boss', lease, { value: 'old' });
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ value: ['new'], fencingToken });
  });

  test('has no value after it has proclaimed null, or was elected without one, however its campaign is repeated (T11)', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await campaign(pair.a, 'boss', lease);
    await campaign(pair.b, 'boss', lease, { value: 'late' });
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ value: null });
    await speak(pair.b, 'boss', 'proclaim', lease, { value: 'mine' });
    await speak(pair.a, 'boss', 'proclaim', lease, { value: null });
    await campaign(pair.b, 'boss', lease, { value: 'late' });
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ value: null });
  });

  test('acknowledges that it has taken over, and its successor has to do so anew', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    await campaign(pair.a, 'boss', two);
    expect((await speak(pair.b, 'boss', 'acknowledge', one)).status).toBe(200);
    await speak(pair.b, 'boss', 'proclaim', one, { value: 'still acknowledged' });
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ acknowledged: true });
    await speak(pair.a, 'boss', 'resign', one);
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ leaseId: two.leaseId, acknowledged: false });
    expect((await speak(pair.b, 'boss', 'acknowledge', two)).status).toBe(200);
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ leaseId: two.leaseId, acknowledged: true });
  });

  test('is the only one who can speak: neither a waiting candidate, nor another lease with the leader’s candidateId, nor a former leader', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const led = (await campaign(pair.a, 'boss', one, { value: 'mine' })).body as { candidateId: string };
    const waits = (await campaign(pair.a, 'boss', two)).body as { candidateId: string };
    const refused = async (lease: { leaseToken: string }, candidateId?: string): Promise<void> => {
      for (const verb of ['proclaim', 'acknowledge'] as const) {
        const reply = await speak(pair.b, 'boss', verb, lease, {
          ...(verb === 'proclaim' ? { value: 'stolen' } : {}),
          ...(candidateId === undefined ? {} : { candidateId }),
        });
        expect(reply.status).toBe(409);
        expect(reply.body).toMatchObject({ code: 'not-holder' });
      }
    };
    await refused(two);
    await refused(two, waits.candidateId);
    await refused(two, led.candidateId);
    expect((await speak(pair.b, 'boss', 'resign', two, { candidateId: led.candidateId })).status).toBe(409);
    expect((await electionOf(pair.a, 'boss')).leader).toMatchObject({ value: 'mine', acknowledged: false });
    await speak(pair.a, 'boss', 'resign', one);
    await refused(one);
    await refused(one, led.candidateId);
  });

  test('that speaks takes its place over from the campaign, whose late give-up then deletes nothing (C1)', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await campaign(pair.a, 'boss', lease, { keepPlace: false });
    const attemptOf = async (): Promise<string> => {
      const data = (await nodesOf(pair, 'boss'))[0]?.data ?? '';
      return (JSON.parse(data.slice(data.lastIndexOf('\n') + 1)) as { attempt: string }).attempt;
    };
    const attempts = [await attemptOf()];
    await speak(pair.b, 'boss', 'proclaim', lease, { value: 1 });
    attempts.push(await attemptOf());
    await speak(pair.b, 'boss', 'acknowledge', lease);
    attempts.push(await attemptOf());
    expect(new Set(attempts).size).toBe(3);
  });

  test('that falls silent is replaced within its TTL, a tick and 250 ms, by a higher token', async () => {
    await using pair = await startPair();
    const ttlMs = 2_000;
    const [one, two] = await Promise.all([leaseFor(pair.a, { ttlMs }), leaseFor(pair.b)]);
    const led = (await campaign(pair.a, 'boss', one)).body as { fencingToken: number };
    const waiting = campaign(pair.b, 'boss', two, { waitMs: 20_000 });
    await eventually('it stands', async () => (await electionOf(pair.b, 'boss')).candidateCount === 2);
    await using server = await ServerNoise.start();
    const reference = await openReferenceSession(ttlMs);
    expect((await speak(pair.a, 'boss', 'acknowledge', one)).status).toBe(200);
    const lastHeard = performance.now();
    using noise = new Noise();
    const serverBeforeMs = server.ms;
    const referenceEnded = reference.fallSilent();
    const elected = await waiting;
    const afterMs = performance.now() - lastHeard - noise.ms - (server.ms - serverBeforeMs);
    // What ZooKeeper itself takes is its own; on a quiet machine no more than the TTL and a tick.
    const endedAfterMs = Math.max(ttlMs + timing.tickMs, (await referenceEnded) - lastHeard);
    expect(elected.status).toBe(200);
    expect((elected.body as { fencingToken: number }).fencingToken).toBeGreaterThan(led.fencingToken);
    expect(afterMs).toBeLessThanOrEqual(endedAfterMs + 250);
    expect((await speak(pair.a, 'boss', 'acknowledge', one)).status).toBe(410);
  });
});

describe('observers', () => {
  test('wait by ETag for another leader, another value and the acknowledgement, and not for newcomers', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    let etag = String((await pair.b.call('GET', '/v1/elections/boss')).headers['etag']);
    const steps: [string, () => Promise<unknown>, Record<string, unknown> | null][] = [
      ['a leader', () => campaign(pair.a, 'boss', one, { value: 1 }), { value: 1, acknowledged: false }],
      ['a value', () => speak(pair.a, 'boss', 'proclaim', one, { value: 2 }), { value: 2, acknowledged: false }],
      ['taking over', () => speak(pair.a, 'boss', 'acknowledge', one), { value: 2, acknowledged: true }],
      ['no leader', () => speak(pair.a, 'boss', 'resign', one), null],
    ];
    for (const [what, change, expected] of steps) {
      const poll = pair.b.call('GET', '/v1/elections/boss?waitMs=20000', { headers: { 'if-none-match': etag } });
      await eventually(`the poll for ${what} waits`, () => pair.b.gateway.recipes.line.observers.size === 1);
      await change();
      const reply = await poll;
      expect(reply.status, what).toBe(200);
      const { leader } = reply.body as { leader: unknown };
      if (expected === null) expect(leader).toBeNull();
      else expect(leader).toMatchObject(expected);
      expect(reply.headers['etag'], what).not.toBe(etag);
      etag = String(reply.headers['etag']);
    }
    await campaign(pair.a, 'boss', one);
    etag = String((await pair.b.call('GET', '/v1/elections/boss')).headers['etag']);
    await campaign(pair.a, 'boss', two);
    const unchanged = await pair.b.call('GET', '/v1/elections/boss?waitMs=300', { headers: { 'if-none-match': etag } });
    expect(unchanged.status).toBe(304);
    expect(unchanged.headers['etag']).toBe(etag);
  });

  test('see by stream who leads first, then each change once, at either path', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one, { value: 'one' });
    await using own = await EventReader.open(pair.b.url, '/v1/elections/boss');
    await using events = await EventReader.open(pair.b.url, '/v1/elections/boss/events');
    for (const stream of [own, events])
      expect((await stream.next()).data).toMatchObject({ name: 'boss', leader: { value: 'one' } });
    // The next one waits at the other replica, so that its grant is a write of its own.
    const waiting = campaign(pair.b, 'boss', two, { value: 'two', waitMs: 20_000 });
    await eventually('it stands', async () => (await electionOf(pair.a, 'boss')).candidateCount === 2);
    await speak(pair.a, 'boss', 'resign', one);
    await waiting;
    for (const stream of [own, events])
      expect((await stream.next()).data).toMatchObject({ leader: { value: 'two', acknowledged: false } });
    await speak(pair.a, 'boss', 'resign', two);
    for (const stream of [own, events]) {
      expect(await stream.next()).toMatchObject({ event: 'state', data: { leader: null } });
      expect(stream.pending).toEqual([]);
    }
  });

  test('can check a leader’s fencing token', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const check = (fencingToken: number): Promise<unknown> =>
      pair.b.expect(200, 'POST', '/v1/elections/boss/check', { body: { fencingToken } });
    expect(await check(7)).toEqual({ current: false, latestFencingToken: null });
    const led = (await campaign(pair.a, 'boss', one)).body as { fencingToken: number };
    await campaign(pair.a, 'boss', two);
    expect(await check(led.fencingToken)).toEqual({ current: true, latestFencingToken: led.fencingToken });
    await speak(pair.a, 'boss', 'resign', one);
    const next = (await campaign(pair.a, 'boss', two)).body as { fencingToken: number };
    expect(await check(led.fencingToken)).toEqual({ current: false, latestFencingToken: next.fencingToken });
  });

  test('page through candidates and elections in their order', async () => {
    await using pair = await startPair();
    const leases = await Promise.all([0, 1, 2].map((i) => leaseFor(pair.a, { label: `c${i}` })));
    for (const lease of leases) await campaign(pair.a, 'boss', lease);
    await campaign(pair.a, 'another', leases[2]!);
    await campaign(pair.a, 'empty', leases[2]!);
    await speak(pair.a, 'empty', 'resign', leases[2]!);
    type Page = { items: { label?: string; name?: string; position?: number }[]; nextPageToken?: string };
    const first = (await pair.b.expect(200, 'GET', '/v1/elections/boss/candidates?limit=2')) as Page;
    expect(first.items.map(({ label, position }) => [label, position])).toEqual([
      ['c0', 0],
      ['c1', 1],
    ]);
    const rest = (await pair.b.expect(
      200,
      'GET',
      `/v1/elections/boss/candidates?limit=2&pageToken=${first.nextPageToken}`,
    )) as Page;
    expect(rest.items.map(({ label, position }) => [label, position])).toEqual([['c2', 2]]);
    expect(rest.nextPageToken).toBeUndefined();
    const elections = (await pair.b.expect(200, 'GET', '/v1/elections?limit=1')) as Page;
    expect(elections.items).toMatchObject([{ name: 'another', candidateCount: 1, leader: { label: 'c2' } }]);
    const others = (await pair.b.expect(200, 'GET', `/v1/elections?pageToken=${elections.nextPageToken}`)) as Page;
    expect(others.items).toMatchObject([{ name: 'boss', candidateCount: 3, leader: { label: 'c0' } }]);
  });
});
