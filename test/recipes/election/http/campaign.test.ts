/** Elections: who stands, who leads, and the line that they stand in. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { candidacies, campaign, electionOf, leaseFor, speak } from '../client.js';
import { nodesOf } from '../nodes.js';

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
