/** Elections: who leads, who stands, and what the leader says. */
import { describe, expect, test } from 'vitest';
import { unless } from '../../src/zookeeper/errors.js';
import { eventually, throughout } from '../support/eventually.js';
import { EventReader } from '../support/event-stream.js';
import { Noise, openReferenceSession } from '../support/noise.js';
import { startPair, type Pair, type Replica } from '../support/start-gateway.js';
import { timing } from '../support/timing.js';
import { candidacies, campaign, electionOf, leaseFor, speak } from './election-client.js';

describe('a campaign', () => {
  test('that finds nobody leads at once, with its value for everybody to see', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a, { label: 'one' });
    const elected = await campaign(pair.a, 'boss', lease, { value: { url: 'http://one' } });
    expect(elected.status).toBe(200);
    expect(elected.body).toMatchObject({ name: 'boss', elected: true, alreadyElected: false, leaseId: lease.leaseId });
    const { candidateId, fencingToken } = elected.body as { candidateId: string; fencingToken: number };
    const shown = await electionOf(pair.b, 'boss');
    expect(shown.leader).toMatchObject({
      candidateId,
      fencingToken,
      leaseId: lease.leaseId,
      label: 'one',
      value: { url: 'http://one' },
      acknowledged: false,
      external: false,
    });
    expect(shown.candidates.map(({ candidateId, position }) => [candidateId, position])).toEqual([[candidateId, 0]]);
    expect(shown.candidateCount).toBe(1);
    expect(await candidacies(pair.b, lease)).toMatchObject([{ name: 'boss', held: true, holdId: candidateId }]);
  });

  test('is repeated without standing twice, and keeps its candidateId and token', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const first = (await campaign(pair.a, 'boss', lease, { value: 1 })).body as Record<string, unknown>;
    const again = await campaign(pair.b, 'boss', lease, { value: 1 });
    expect(again.status).toBe(200);
    expect(again.body).toMatchObject({
      candidateId: first['candidateId'],
      fencingToken: first['fencingToken'],
      alreadyElected: true,
    });
    expect((await electionOf(pair.a, 'boss')).candidateCount).toBe(1);
  });

  test('that is not elected in time stays in line and says how far it is, without being asked to', async () => {
    await using pair = await startPair();
    const leases = await Promise.all([0, 1, 2].map(() => leaseFor(pair.a)));
    expect((await campaign(pair.a, 'boss', leases[0]!)).status).toBe(200);
    const second = await campaign(pair.b, 'boss', leases[1]!);
    const third = await campaign(pair.b, 'boss', leases[2]!, { waitMs: 50 });
    expect(second.status).toBe(202);
    expect(second.body).toMatchObject({ elected: false, position: 1, requestId: '' });
    expect(third.status).toBe(202);
    expect(third.body).toMatchObject({ elected: false, position: 2 });
    const { candidates, candidateCount } = await electionOf(pair.a, 'boss');
    expect(candidateCount).toBe(3);
    expect(candidates.map(({ candidateId }) => candidateId).slice(1)).toEqual([
      (second.body as { candidateId: string }).candidateId,
      (third.body as { candidateId: string }).candidateId,
    ]);
  });

  test('gives its place up at the end of the wait when it does not want to keep it, and is told who leads', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.b)]);
    await campaign(pair.a, 'boss', one);
    for (const waitMs of [0, 50]) {
      const refused = await campaign(pair.b, 'boss', two, { keepPlace: false, waitMs });
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ code: 'lock-held', holder: { leaseId: one.leaseId } });
    }
    expect((await electionOf(pair.a, 'boss')).candidateCount).toBe(1);
  });

  test('that waits is answered when the leader resigns, whichever replica it waits at, with a higher token', async () => {
    await using pair = await startPair();
    for (const [name, replica] of [
      ['here', pair.a],
      ['there', pair.b],
    ] as const) {
      const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
      const first = (await campaign(pair.a, name, one)).body as { fencingToken: number };
      const waiting = campaign(replica, name, two, { waitMs: 20_000, value: 'two' });
      await eventually('it stands', async () => (await electionOf(pair.a, name)).candidateCount === 2);
      expect((await speak(pair.a, name, 'resign', one)).status).toBe(204);
      const elected = await waiting;
      expect(elected.status).toBe(200);
      expect((elected.body as { fencingToken: number }).fencingToken).toBeGreaterThan(first.fencingToken);
      expect((await electionOf(pair.b, name)).leader).toMatchObject({ leaseId: two.leaseId, value: 'two' });
    }
  });

  test('that stays in line leads when its turn comes although nobody waits for it, and its client finds out by repeating it', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const kept = (await campaign(pair.b, 'boss', two)).body as { candidateId: string };
    await speak(pair.a, 'boss', 'resign', one);
    expect((await electionOf(pair.b, 'boss')).leader).toMatchObject({
      candidateId: kept.candidateId,
      acknowledged: false,
    });
    const repeated = await campaign(pair.a, 'boss', two);
    expect(repeated.status).toBe(200);
    expect(repeated.body).toMatchObject({ elected: true, candidateId: kept.candidateId, alreadyElected: false });
  });

  test('is never taken for abandoned: its node announces no end of its wait (C3)', async () => {
    await using pair = await startPair();
    const [one, two, three] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    await campaign(pair.a, 'boss', two, { waitMs: 20 });
    // With a request of this replica waiting, places are made as `waiting` at once: that way too.
    const waiting = campaign(pair.a, 'boss', three, { waitMs: 400 });
    await eventually('it stands', async () => (await electionOf(pair.a, 'boss')).candidateCount === 3);
    const four = await leaseFor(pair.a);
    await campaign(pair.a, 'boss', four);
    expect((await waiting).status).toBe(202);
    const records = (await nodesOf(pair, 'boss')).map(({ data }) => JSON.parse(data.slice(data.lastIndexOf('\n') + 1)));
    expect(records.map(({ state }: { state: string }) => state)).toEqual(['granted', 'waiting', 'waiting', 'waiting']);
    for (const record of records) expect(record).not.toHaveProperty('waitUntil');
  });
});

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
    const reference = await openReferenceSession(ttlMs);
    expect((await speak(pair.a, 'boss', 'acknowledge', one)).status).toBe(200);
    const lastHeard = performance.now();
    using noise = new Noise();
    const referenceEnded = reference.fallSilent();
    const elected = await waiting;
    const afterMs = performance.now() - lastHeard - noise.ms;
    // What ZooKeeper itself takes is its own; on a quiet machine no more than the TTL and a tick.
    const endedAfterMs = Math.max(ttlMs + timing.tickMs, (await referenceEnded) - lastHeard);
    expect(elected.status).toBe(200);
    expect((elected.body as { fencingToken: number }).fencingToken).toBeGreaterThan(led.fencingToken);
    expect(afterMs).toBeLessThanOrEqual(endedAfterMs + 250);
    expect((await speak(pair.a, 'boss', 'acknowledge', one)).status).toBe(410);
  });
});

describe('resigning', () => {
  test('gives up a waiting candidacy too, by its candidateId or its requestId, and once', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const first = (await campaign(pair.a, 'boss', two, { requestId: 'first' })).body as { candidateId: string };
    await campaign(pair.a, 'boss', two, { requestId: 'second' });
    expect((await electionOf(pair.a, 'boss')).candidateCount).toBe(3);
    expect((await speak(pair.b, 'boss', 'resign', two, { candidateId: first.candidateId })).status).toBe(204);
    expect((await speak(pair.b, 'boss', 'resign', two, { requestId: 'second' })).status).toBe(204);
    expect((await electionOf(pair.a, 'boss')).candidateCount).toBe(1);
    for (const which of [{ candidateId: first.candidateId }, { requestId: 'second' }, {}]) {
      const again = await speak(pair.b, 'boss', 'resign', two, which);
      expect(again.status).toBe(409);
      expect(again.body).toMatchObject({ code: 'not-holder' });
    }
  });

  test('of a candidate in the middle lets nobody lead', async () => {
    await using pair = await startPair();
    const [one, two, three] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a), leaseFor(pair.b)]);
    await campaign(pair.a, 'boss', one);
    await campaign(pair.a, 'boss', two);
    let ended = false;
    const waiting = campaign(pair.b, 'boss', three, { waitMs: 20_000 }).then((reply) => {
      ended = true;
      return reply;
    });
    await eventually('it stands', async () => (await electionOf(pair.a, 'boss')).candidateCount === 3);
    await speak(pair.a, 'boss', 'resign', two);
    await throughout('the third waits', () => !ended);
    await speak(pair.a, 'boss', 'resign', one);
    expect((await waiting).status).toBe(200);
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
      await eventually(`the poll for ${what} waits`, () => pair.b.gateway.observers.size === 1);
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

describe('the line of an election', () => {
  test('is that of LeaderLatch, where the data of a candidate begins with an id of one line (T11)', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(
      ['', 'a label', '', ''].map((label) => leaseFor(pair.a, label === '' ? {} : { label })),
    );
    for (const [i, value] of [undefined, undefined, 'http://host:80', { host: 'a\nb' }].entries())
      await campaign(pair.a, 'boss', leases[i]!, value === undefined ? {} : { value });
    await speak(pair.a, 'boss', 'acknowledge', leases[0]!);
    const nodes = await nodesOf(pair, 'boss');
    expect(nodes.map(({ data }) => data.split('\n')[0])).toEqual([
      leases[0]!.leaseId,
      'a label',
      'http://host:80',
      '{"host":"a\\nb"}',
    ]);
    for (const { path } of nodes) expect(path).toMatch(/\/_c_[0-9a-f-]{36}-latch-\d{10}$/);
  });

  test('tells a foreign candidate behind ours of nothing but the end of ours, however often that is written to (T14)', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const waiting = campaign(pair.b, 'boss', two, { waitMs: 20_000 });
    await eventually('it stands', async () => (await electionOf(pair.a, 'boss')).candidateCount === 2);
    const { control, layout } = pair.a.gateway.context;
    const directory = layout.line('election', 'default', 'boss');
    const name = `${directory}/_c_01234567-89ab-4cde-8f01-23456789abcd-latch-`;
    const { path } = await control.create(name, Buffer.from('curator-7'), { mode: 'ephemeral-sequential' });
    const { children } = await control.getChildren(directory);
    const before = children.sort((a, b) => a.slice(-10).localeCompare(b.slice(-10))).at(-2) as string;
    const events: string[] = [];
    await control.watches.getData(`${directory}/${before}`, ({ type }) => void events.push(type));
    await speak(pair.a, 'boss', 'resign', one); // elects ours after a wait
    expect((await waiting).status).toBe(200);
    await speak(pair.b, 'boss', 'proclaim', two, { value: 'written' });
    await speak(pair.b, 'boss', 'acknowledge', two);
    await campaign(pair.a, 'boss', two);
    await throughout('nothing is told', () => events.length === 0);
    await speak(pair.b, 'boss', 'resign', two);
    await eventually('the end is told', () => events.length > 0);
    expect(events).toEqual(['deleted']);
    expect((await control.getChildren(directory)).children).toEqual([path.slice(directory.length + 1)]);
    await control.delete(path);
  });

  test('goes on, and is left, where somebody has removed the tails by hand (T14)', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const waiting = campaign(pair.a, 'boss', two, { waitMs: 20_000 });
    await eventually('it stands', async () => (await electionOf(pair.b, 'boss')).candidateCount === 2);
    const { control, layout } = pair.a.gateway.context;
    const directory = layout.line('election', 'default', 'boss');
    const { children } = await control.getChildren(directory);
    const tails = children.filter((child) => child.includes('-tail-latch-'));
    expect(tails).toHaveLength(2);
    for (const tail of tails) await control.delete(`${directory}/${tail}`);
    expect((await speak(pair.a, 'boss', 'resign', one)).status).toBe(204);
    expect((await waiting).status).toBe(200);
    expect((await speak(pair.b, 'boss', 'resign', two)).status).toBe(204);
    expect((await control.getChildren(directory)).children).toEqual([]);
  });

  test('shows a foreign candidate by its id, lets it lead, and waits for it', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await campaign(pair.a, 'boss', one);
    const { control, layout } = pair.a.gateway.context;
    const directory = layout.line('election', 'default', 'boss');
    const name = `${directory}/_c_01234567-89ab-4cde-8f01-23456789abcd-latch-`;
    const { path } = await control.create(name, Buffer.from('curator-7'), { mode: 'ephemeral-sequential' });
    await speak(pair.a, 'boss', 'resign', one);
    expect((await electionOf(pair.b, 'boss')).leader).toMatchObject({
      value: 'curator-7',
      leaseId: null,
      external: true,
      acknowledged: false,
    });
    const waiting = campaign(pair.b, 'boss', two, { waitMs: 20_000 });
    await eventually('it stands', async () => (await electionOf(pair.a, 'boss')).candidateCount === 2);
    await control.delete(path);
    expect((await waiting).status).toBe(200);
  });
});

/** The nodes in line, in order, as a foreign client reads them. */
async function nodesOf(pair: Pair | { a: Replica }, name: string): Promise<{ path: string; data: string }[]> {
  const { control, layout } = pair.a.gateway.context;
  const directory = layout.line('election', 'default', name);
  await control.sync(directory);
  const { children } = await control.getChildren(directory);
  const paths = children
    .filter((child) => !child.includes('-tail-latch-'))
    .sort((a, b) => a.slice(-10).localeCompare(b.slice(-10)))
    .map((child) => `${directory}/${child}`);
  const nodes = await Promise.all(paths.map((path) => unless(control.getData(path), 'NO_NODE')));
  return nodes.flatMap((node, i) => (node === undefined ? [] : [{ path: paths[i]!, data: node.data.toString() }]));
}
