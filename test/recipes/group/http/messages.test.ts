/** Messages to a group: posted once, read by each from its own cursor (protocol C60, C61). */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { bodiesOf, cursorOf, messagesOf, post } from '../client.js';

const PATH = '/v1/groups/team/messages';

describe('a message', () => {
  test('is read in the one order by everybody whose cursor is behind it, through any replica', async () => {
    await using pair = await startPair();
    const cursor = await cursorOf(pair.b, 'team');
    const numbers = [await post(pair.a, 'team', { reload: 'rates' }), await post(pair.b, 'team', 'second')];
    for (const replica of [pair.a, pair.b]) {
      const page = await messagesOf(replica, 'team', `after=${cursor}`);
      expect(page).toMatchObject({ name: 'team', cursor: numbers[1], missed: false });
      expect(page.messages).toMatchObject([
        { number: numbers[0], by: 'anonymous', body: { reload: 'rates' } },
        { number: numbers[1], by: 'anonymous', body: 'second' },
      ]);
      expect(Date.parse(page.messages[0]?.at ?? '')).toBeGreaterThan(Date.now() - 60_000);
    }
    expect(numbers[1]).toBe((numbers[0] as number) + 1);
    expect(await messagesOf(pair.a, 'team', `after=${numbers[1]}`)).toMatchObject({ messages: [], missed: false });
  });

  test('that was posted before somebody began is not for him; with after=0 he reads what is kept', async () => {
    await using pair = await startPair();
    await post(pair.a, 'team', 'early');
    const cursor = await cursorOf(pair.b, 'team');
    await post(pair.a, 'team', 'late');
    expect(bodiesOf(await messagesOf(pair.b, 'team', `after=${cursor}`))).toEqual(['late']);
    expect(await messagesOf(pair.b, 'team', 'after=0')).toMatchObject({
      messages: [{ body: 'early' }, { body: 'late' }],
      missed: false,
    });
  });

  test('is posted once, however often its requestId is repeated, through any replica', async () => {
    await using pair = await startPair();
    const number = await post(pair.a, 'team', 1, 'r1');
    await post(pair.a, 'team', 2);
    for (const replica of [pair.a, pair.b]) {
      expect(await replica.call('POST', PATH, { body: { body: 1, requestId: 'r1' } })).toMatchObject({
        status: 200,
        body: { name: 'team', number },
      });
      const repeated = { headers: { 'idempotency-key': 'r1' }, body: { body: 1 } };
      expect(await replica.call('POST', PATH, repeated)).toMatchObject({ status: 200, body: { number } });
      expect(await replica.call('POST', PATH, { body: { body: 3, requestId: 'r1' } })).toMatchObject({
        status: 422,
        body: { code: 'invalid', field: 'Idempotency-Key' },
      });
    }
    expect(bodiesOf(await messagesOf(pair.a, 'team', 'after=0'))).toEqual([1, 2]);
    await post(pair.a, 'other', 1, 'r1');
    expect(await pair.a.metric('postern_group_messages_total', { outcome: 'posted' })).toBe(3);
  });
});

describe('who reads', () => {
  test('gets at most limit messages at once, and goes on with the cursor', async () => {
    await using replica = await startReplica();
    let { cursor } = await messagesOf(replica, 'team');
    for (let i = 0; i < 5; i += 1) await post(replica, 'team', i);
    const seen: unknown[][] = [];
    for (let i = 0; i < 4; i += 1) {
      const page = await messagesOf(replica, 'team', `after=${cursor}&limit=2`);
      seen.push(bodiesOf(page));
      ({ cursor } = page);
    }
    expect(seen).toEqual([[0, 1], [2, 3], [4], []]);
  });

  test('waits for the next message, also where there was none yet, and is answered in time when none comes', async () => {
    await using pair = await startPair();
    const cursor = await cursorOf(pair.b, 'team');
    for (const query of [`after=${cursor}&waitMs=30000`, 'waitMs=30000']) {
      const waiting = messagesOf(pair.b, 'team', query);
      let isOver = false;
      void waiting.then(() => (isOver = true));
      await eventually('it waits', () => pair.b.gateway.observed() > 0);
      await throughout('nobody is answered without a message', () => !isOver, { forMs: 50 });
      const number = await post(pair.a, 'team', query);
      expect(await waiting).toMatchObject({ messages: [{ number, body: query }], cursor: number, missed: false });
    }
    const last = await cursorOf(pair.a, 'team');
    const begun = performance.now();
    expect(await messagesOf(pair.b, 'team', `after=${last}&waitMs=200`)).toMatchObject({ messages: [], cursor: last });
    expect(performance.now() - begun).toBeGreaterThanOrEqual(199);
  });

  test('is told when messages were dropped that it has not read, and goes on with what is there', async () => {
    await using pair = await startPair({ settings: { POSTERN_GROUP_MESSAGES: '3' } });
    const before = await cursorOf(pair.b, 'team');
    const numbers: number[] = [];
    for (let i = 0; i < 7; i += 1) numbers.push(await post(i % 2 === 0 ? pair.a : pair.b, 'team', i));
    const missed = await messagesOf(pair.b, 'team', `after=${before}`);
    expect(missed).toMatchObject({ missed: true, cursor: numbers[6] });
    expect(bodiesOf(missed)).toEqual([4, 5, 6]);
    // The last one that it has seen is gone, and nothing behind that.
    expect(await messagesOf(pair.b, 'team', `after=${numbers[3]}`)).toMatchObject({ missed: false });
    expect(await messagesOf(pair.b, 'team', `after=${numbers[2]}`)).toMatchObject({ missed: true });
    expect(await messagesOf(pair.b, 'team', `after=${numbers[2]}&waitMs=10000`)).toMatchObject({ missed: true });
    const { control, layout } = pair.a.gateway.context;
    expect((await control.getChildren(layout.groupMessages('default', 'team'))).children).toHaveLength(3);
    const dropped = { outcome: 'dropped' };
    const counts = await Promise.all(
      [pair.a, pair.b].map((each) => each.metric('postern_group_messages_total', dropped)),
    );
    expect(counts.reduce((sum, count) => sum + count)).toBe(4);
  });
});

test('what is wrong in a request is refused, named, and nothing is posted', async () => {
  await using replica = await startReplica();
  const cursor = await cursorOf(replica, 'team');
  for (const [body, field] of [
    [{ body: 'x'.repeat(4_096) }, 'body'],
    [{}, 'body'],
    [{ body: 1, requestId: 'a b' }, 'requestId'],
    [{ body: 1, to: 'w1' }, 'to'],
  ] as const)
    expect(await replica.call('POST', PATH, { body }), field).toMatchObject({ status: 422, body: { field } });
  for (const [query, field] of [
    ['after=-1', 'after'],
    ['after=x', 'after'],
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['waitMs=3600001', 'waitMs'],
    ['since=1', 'since'],
    [`after=${cursor + 1_000_000}`, 'after'],
  ] as const)
    expect(await replica.call('GET', `${PATH}?${query}`), query).toMatchObject({ status: 422, body: { field } });
  const number = await post(replica, 'team', 'right');
  const startedAt = performance.now();
  for (const query of [`after=${number + 1}`, `after=${Number.MAX_SAFE_INTEGER}`, `after=${number + 1}&waitMs=55000`])
    expect(await replica.call('GET', `${PATH}?${query}`), query).toMatchObject({
      status: 422,
      body: { code: 'invalid', field: 'after', cursor: number },
    });
  expect(performance.now() - startedAt, 'it is not waited for').toBeLessThan(50_000);
  expect(bodiesOf(await messagesOf(replica, 'team', 'after=0'))).toEqual(['right']);
  const { control, layout } = replica.gateway.context;
  await control.create(`${layout.allGroupMessages('default')}/foreign`, Buffer.from('somebody’s'));
  for (const [method, body] of [
    ['POST', { body: 1 }],
    ['GET', undefined],
  ] as const) {
    const reply = await replica.call(method, '/v1/groups/foreign/messages', body === undefined ? {} : { body });
    expect(reply).toMatchObject({ status: 409, body: { code: 'conflict', retryable: false } });
  }
});
