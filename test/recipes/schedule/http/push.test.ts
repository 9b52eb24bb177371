/** Schedules over HTTP: what is pushed, shown, refused and removed. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { EVERY_SECOND, expectEverySecond, NAME, occurrencesOf, popAll, put, SECONDS, show } from '../client.js';

const DAILY = { cron: '0 3 * * *', timeZone: 'Europe/Berlin' };

describe('a schedule', () => {
  test('pushes each occurrence once, with its name and time, whichever replica it was written to', async () => {
    await using pair = await startPair({ settings: SECONDS });
    const written = await put(pair.a, { to: { queue: 'jobs', body: { job: 'backup', n: 1.5 } } });
    expect(written).toMatchObject({ name: NAME, cron: EVERY_SECOND, timeZone: 'UTC', queue: 'jobs', misfire: 'skip' });
    await put(pair.b, {}, 'other');
    await eventually('both are pushed three times', async () => {
      const { depth } = (await pair.b.expect(200, 'GET', '/v1/queues/jobs')) as { depth: number };
      return depth >= 6;
    });
    const shown = await show(pair.b);
    const messages = await popAll(pair.a);
    for (const name of [NAME, 'other']) expectEverySecond(occurrencesOf(messages, name));
    expect(messages.find(({ attributes }) => attributes.schedule === NAME)?.body).toEqual({ job: 'backup', n: 1.5 });
    const { fired, missed } = shown;
    expect(missed).toBeUndefined();
    expect(Date.parse(fired!.at)).toBeGreaterThanOrEqual(Date.parse(fired!.occurrence));
    const fires = await Promise.all([pair.a, pair.b].map((replica) => replica.metric('postern_schedules')));
    expect(fires.sort()).toEqual([0, 2]);
    expect(await pair.a.metric('postern_schedule_occurrences_total', { outcome: 'pushed' })).toBeGreaterThanOrEqual(
      fires[0]!,
    );
  });

  test('shows its next times, is listed, and is gone when it is deleted', async () => {
    await using pair = await startPair();
    await put(pair.a, DAILY);
    const { next, dueAt, paused, principal } = await show(pair.b);
    expect(next).toHaveLength(5);
    expect([next[0], paused, principal]).toEqual([dueAt, false, 'anonymous']);
    const hours = next.map((text) => new Date(text).toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' }));
    expect(new Set(hours)).toEqual(new Set(['03:00:00']));
    await put(pair.b, { ...DAILY, paused: true }, 'paused');
    const list = await pair.a.expect(200, 'GET', '/v1/schedules');
    expect(list).toMatchObject({
      items: [
        { name: NAME, dueAt },
        { name: 'paused', paused: true, queue: 'jobs' },
      ],
    });
    const first = await pair.a.expect(200, 'GET', '/v1/schedules?limit=1&consistency=stale');
    expect(first).toMatchObject({ items: [{ name: NAME }] });
    const rest = await pair.b.expect(200, 'GET', `/v1/schedules?pageToken=${first.nextPageToken as string}`);
    expect(rest).toMatchObject({ items: [{ name: 'paused' }] });
    await pair.b.expect(204, 'DELETE', `/v1/schedules/${NAME}`);
    await pair.a.expect(204, 'DELETE', `/v1/schedules/${NAME}`);
    expect((await pair.a.call('GET', `/v1/schedules/${NAME}`)).body).toMatchObject({ status: 404, code: 'not-found' });
  });

  test('that is paused or deleted pushes nothing, and goes on without what lay between', async () => {
    await using pair = await startPair({ settings: SECONDS });
    await put(pair.a);
    await eventually('it is pushed', async () => (await show(pair.b)).fired);
    const paused = await put(pair.b, { paused: true });
    expect(paused).toMatchObject({ paused: true, next: [] });
    await popAll(pair.a);
    await throughout('nothing is pushed', async () => (await popAll(pair.b)).length === 0, { forMs: 1_500 });
    const again = await put(pair.a, { paused: false, misfire: 'once' });
    await eventually('it goes on', async () => (await show(pair.b)).fired!.occurrence >= again.dueAt!);
    await pair.b.expect(204, 'DELETE', `/v1/schedules/${NAME}`);
    const [first] = occurrencesOf(await popAll(pair.a));
    expect(first).toBe(Date.parse(again.dueAt!));
    await throughout('nothing more is pushed', async () => (await popAll(pair.b)).length === 0, { forMs: 1_500 });
  });

  test('tells those that wait and watch when it is written, pushed and deleted', async () => {
    await using pair = await startPair({ settings: SECONDS });
    await put(pair.a, DAILY);
    const { etag } = (await pair.a.call('GET', `/v1/schedules/${NAME}`)).headers;
    await using stream = await EventReader.open(pair.b.url, `/v1/schedules/${NAME}/events`);
    await using many = await EventReader.open(pair.b.url, '/v1/schedules');
    await eventually(
      'both tell of it',
      () => stream.seen.length > 0 && many.seen.some(({ event }) => event === 'state'),
    );
    expect(stream.seen[0]?.data).toMatchObject({ name: NAME, cron: DAILY.cron });
    const headers = { 'if-none-match': etag as string };
    const waiting = pair.b.call('GET', `/v1/schedules/${NAME}?waitMs=5000`, { headers });
    await put(pair.a);
    expect((await waiting).body).toMatchObject({ cron: EVERY_SECOND });
    await eventually('a push is told of', () => stream.seen.some(({ data }) => (data as { fired?: unknown }).fired));
    await pair.a.expect(204, 'DELETE', `/v1/schedules/${NAME}`);
    await eventually('and the end of it', () => many.seen.some(({ event }) => event === 'gone'));
    expect((await pair.b.call('GET', `/v1/schedules/${NAME}`, { headers })).status).toBe(404);
  });
});

test('a queue that refuses the message is told of in the schedule; what it refuses too long is missed', async () => {
  await using pair = await startPair({ settings: { ...SECONDS, POSTERN_SCHEDULE_GRACE_MS: '1000' } });
  await pair.a.expect(201, 'PUT', '/v1/queues/jobs', { body: { order: 'fifo', maxDepth: 1 } });
  await pair.a.expect(201, 'POST', '/v1/queues/jobs/messages', { body: { messages: [{ body: 'in the way' }] } });
  await put(pair.a);
  const refused = await eventually('it is refused', async () => (await show(pair.b)).refused);
  expect(refused).toMatchObject({ code: 'queue-full' });
  await eventually('it is missed', async () => ((await show(pair.b)).missed?.count ?? 0) >= 2);
  await pair.b.expect(200, 'PUT', '/v1/queues/jobs', { body: { order: 'fifo' } });
  // On a machine that stands still for a second the next one may be missed before anybody has looked.
  await eventually('the newest is pushed', async () => {
    const { refused: stillRefused, fired, missed } = await show(pair.a);
    return stillRefused === undefined && fired !== undefined && fired.occurrence > missed!.occurrence;
  });
  const refusals = [pair.a, pair.b].map((replica) => replica.metric('postern_schedule_refusals_total'));
  expect(Math.max(...(await Promise.all(refusals)))).toBeGreaterThanOrEqual(2);
});

describe('what is refused names field, value and limit, and nothing is done', () => {
  test.each([
    [{ cron: '61 * * * *' }, 'cron', '61'],
    [{ cron: EVERY_SECOND }, 'cron', 'five fields'],
    [{ cron: '@daily' }, 'cron', '@daily'],
    [{ cron: '2027-01-01T00:00:00' }, 'cron', '2027-01-01T00:00:00'],
    [{ cron: '0 0 30 2 *' }, 'cron', 'never'],
    [{ timeZone: 'Mars/Base' }, 'timeZone', 'Mars/Base'],
    [{ timeZone: '+01:00' }, 'timeZone', '+01:00'],
    [{ misfire: 'all' }, 'misfire', 'all'],
    [{ to: { queue: 'jobs', body: 1, delay: 5 } }, 'to.delay', 'delay'],
    [{ to: { queue: 'jobs', body: 1, priority: 5 } }, 'to.priority', '5'],
    [{ to: { queue: 'a/b', body: 1 } }, 'to.queue', 'a/b'],
    [{ to: { queue: 'jobs' } }, 'to.body', 'body'],
    [{ every: 'day' }, 'every', 'every'],
  ])('%j', async (body, field, text) => {
    await using replica = await startReplica();
    const reply = await replica.call('PUT', `/v1/schedules/${NAME}`, {
      body: { ...DAILY, to: { queue: 'jobs', body: 1 }, ...body },
    });
    expect(reply).toMatchObject({ status: 422, body: { code: 'invalid', field } });
    expect((reply.body as { detail: string }).detail).toContain(text);
    expect((await replica.call('GET', `/v1/schedules/${NAME}`)).status).toBe(404);
  });

  test('a priority is taken where the queue has that order', async () => {
    await using replica = await startReplica({ settings: SECONDS });
    await replica.expect(201, 'PUT', '/v1/queues/jobs', { body: { order: 'priority' } });
    await put(replica, { to: { queue: 'jobs', body: 1, priority: 7 } });
    await eventually('it is pushed', async () => (await show(replica)).fired);
    expect((await popAll(replica))[0]).toMatchObject({ priority: 7 });
  });

  test('a queue whose messages belong to groups', async () => {
    await using replica = await startReplica();
    await replica.expect(201, 'PUT', '/v1/queues/jobs', { body: { order: 'grouped' } });
    const body = { ...DAILY, to: { queue: 'jobs', body: 1 } };
    const reply = await replica.call('PUT', `/v1/schedules/${NAME}`, { body });
    expect(reply).toMatchObject({ status: 422, body: { code: 'invalid', field: 'to.queue' } });
    expect((await replica.call('GET', `/v1/schedules/${NAME}`)).status).toBe(404);
  });

  test('a body that is too long, and one schedule too many', async () => {
    const settings = { POSTERN_MAX_SCHEDULES: '2', POSTERN_MAX_SCHEDULE_BYTES: '300' };
    await using replica = await startReplica({ settings });
    const tooLong = { ...DAILY, to: { queue: 'jobs', body: 'x'.repeat(299) } };
    expect((await replica.call('PUT', `/v1/schedules/${NAME}`, { body: tooLong })).body).toMatchObject({
      status: 413,
      code: 'too-large',
      maxBytes: 300,
      bytes: 301,
    });
    await put(replica, { ...DAILY, to: { queue: 'jobs', body: 'x'.repeat(298) } }, 'one');
    await put(replica, DAILY, 'two');
    const body = { ...DAILY, to: { queue: 'jobs', body: 1 } };
    await eventually('a third is refused', async () => {
      const { body: refusal } = await replica.call('PUT', '/v1/schedules/three', { body });
      expect(refusal).toMatchObject({ status: 409, code: 'too-many-names', limit: 'maxSchedules', maxSchedules: 2 });
      return true;
    });
    await put(replica, { ...DAILY, misfire: 'once' }, 'two');
  });
});
