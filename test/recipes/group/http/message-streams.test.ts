/** The stream of the messages to a group (protocol C61). */
import { expect, test } from 'vitest';
import { throughout } from '../../../support/eventually.js';
import { EventReader, type StreamedEvent } from '../../../support/http/event-stream.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { cursorOf, post } from '../client.js';

const PATH = '/v1/groups/team/messages/events';

async function nextBodies(reader: EventReader, count: number): Promise<unknown[]> {
  const bodies: unknown[] = [];
  while (bodies.length < count) {
    const { event, id, data } = (await reader.next()) as StreamedEvent & { data: { number: number; body: unknown } };
    expect(event).toBe('message');
    expect(id).toBe(String(data.number));
    bodies.push(data.body);
  }
  return bodies;
}

test('tells of each message once, in order, from now on; and from where it ended at another replica', async () => {
  await using pair = await startPair();
  await post(pair.a, 'team', 'early');
  let last: string;
  {
    await using reader = await EventReader.open(pair.b.url, PATH);
    expect(await reader.next()).toMatchObject({ event: 'state', data: { name: 'team', missed: false } });
    for (let i = 0; i < 3; i += 1) await post(pair.a, 'team', i);
    expect(await nextBodies(reader, 3)).toEqual([0, 1, 2]);
    await throughout('nothing comes twice', () => reader.pending.length === 0, { forMs: 50 });
    last = reader.seen.at(-1)?.id as string;
  }
  for (let i = 3; i < 150; i += 1) await post(pair.a, 'team', i);
  await using again = await EventReader.open(pair.a.url, '/v1/groups/team/messages', {
    headers: { 'last-event-id': last },
  });
  expect(await again.next()).toMatchObject({ event: 'state', id: last, data: { missed: false } });
  await post(pair.b, 'team', 150);
  expect(await nextBodies(again, 148)).toEqual(Array.from({ length: 148 }, (_, i) => i + 3));
});

test('begins behind a cursor, also where there was no message yet, and says what was missed', async () => {
  await using pair = await startPair({ settings: { POSTERN_GROUP_MESSAGES: '2' } });
  const cursor = await cursorOf(pair.a, 'team');
  await using early = await EventReader.open(pair.b.url, `${PATH}?after=${cursor}`);
  expect(await early.next()).toMatchObject({ event: 'state', id: String(cursor), data: { missed: false } });
  for (let i = 0; i < 4; i += 1) {
    await post(pair.a, 'team', i);
    expect(await nextBodies(early, 1)).toEqual([i]);
  }
  await using late = await EventReader.open(pair.b.url, `${PATH}?after=${cursor}`);
  expect(await late.next()).toMatchObject({ event: 'state', id: String(cursor), data: { missed: true } });
  expect(await nextBodies(late, 2)).toEqual([2, 3]);
});

test('reads for a stream no more at once than a slow reader may keep in memory', async () => {
  await using replica = await startReplica();
  const cursor = await cursorOf(replica, 'team');
  for (let i = 0; i < 100; i += 1) await post(replica, 'team', i);
  const { control } = replica.gateway.context;
  const multiRead = control.multiRead.bind(control);
  const sizes: number[] = [];
  control.multiRead = (reads, ...rest) => {
    if (reads[0]?.path.includes('/group-messages/') === true) sizes.push(reads.length);
    return multiRead(reads, ...rest);
  };
  await using reader = await EventReader.open(replica.url, `${PATH}?after=${cursor}`);
  expect(await reader.next()).toMatchObject({ event: 'state', id: String(cursor), data: { missed: false } });
  expect(await nextBodies(reader, 100)).toEqual(Array.from({ length: 100 }, (_, i) => i));
  expect(Math.max(...sizes)).toBeLessThanOrEqual(16);
  const read = sizes.reduce((sum, size) => sum + size, 0);
  expect(read).toBeGreaterThanOrEqual(100);
  expect(read).toBeLessThan(200);
});

test('is refused for an id that is none of its own', async () => {
  await using pair = await startPair();
  for (const id of ['abc', '-1', '9'.repeat(20)]) {
    const refused = await pair.a.call('GET', PATH, { headers: { 'last-event-id': id } });
    expect(refused, id).toMatchObject({ status: 422, body: { code: 'invalid', field: 'Last-Event-ID' } });
  }
  expect(await pair.a.call('GET', PATH, { headers: { 'last-event-id': '9007199254740991' } })).toMatchObject({
    status: 422,
    body: { field: 'after' },
  });
});
