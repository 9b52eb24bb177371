/**
 * Many read the messages to a group: what that costs ZooKeeper, and that all read the same, whoever dies.
 */
import { expect, test } from 'vitest';
import type { Client } from '../../../support/http/client.js';
import { eventually, passed } from '../../../support/eventually.js';
import { killInTurns } from '../../../support/kills.js';
import { rounds } from '../../../support/scene.js';
import {
  spawnReplica,
  STANDING_WATCHES,
  startPair,
  startReplica,
  type Replica,
} from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { cursorOf, messagesOf, post, type MessagePage, type ShownMessage } from '../client.js';

const CROWD = 1_000;

/** All requests to ZooKeeper that the replica has sent so far. */
async function requestsOf(replica: Replica): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  const counts = page.matchAll(/^postern_zookeeper_request_duration_seconds_count\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

test(
  `${CROWD} readers at a replica cost it one watch, and a message some requests`,
  { timeout: scaled(60_000) },
  async () => {
    await using pair = await startPair();
    const cursor = await cursorOf(pair.a, 'team');
    await post(pair.b, 'team', 'before'); // the log is there
    const after = (await messagesOf(pair.a, 'team', `after=${cursor}`)).cursor;
    const waiting = Array.from({ length: CROWD }, () => messagesOf(pair.a, 'team', `after=${after}&waitMs=50000`));
    const watches = (): Promise<number> => pair.a.metric('postern_watches');
    await eventually('all wait, at one watch', async () => {
      const inFlight = await pair.a.metric('postern_http_requests_in_flight');
      return inFlight === CROWD && (await watches()) === 1 + STANDING_WATCHES;
    });
    const [requests, events] = [await requestsOf(pair.a), await pair.a.metric('postern_watch_events_total')];
    const startedAt = performance.now();
    const number = await post(pair.b, 'team', 'all of you');
    const pages = await Promise.all(waiting);
    const ms = Math.round(performance.now() - startedAt);
    expect(new Set(pages.map((page) => JSON.stringify(page))).size).toBe(1);
    expect(pages[0]).toMatchObject({ messages: [{ number, body: 'all of you' }], cursor: number });
    expect((await pair.a.metric('postern_watch_events_total')) - events).toBe(1);
    const sent = (await requestsOf(pair.a)) - requests;
    console.log(`${CROWD} readers, one message: all have it after ${ms} ms, ${sent} requests to ZooKeeper`);
    expect(sent).toBeLessThan(10);
  },
);

const POSTERS = 6;
const POSTS = rounds(60);
const READERS = 3;

/** As a client should: the same request again, at the next replica, until it is answered. */
async function persistently<T>(
  replicas: readonly Client[],
  at: number,
  ask: (replica: Client) => Promise<T>,
): Promise<T> {
  for (let i = 0; i < 2_000; i += 1) {
    try {
      return await ask(replicas[(at + i) % replicas.length] as Client);
    } catch {
      await passed(5); // killed, or without ZooKeeper
    }
  }
  throw new Error('no replica answers');
}

async function postAll(replicas: readonly Client[], poster: number, answered: Map<string, number>): Promise<void> {
  for (let i = 0; i < POSTS; i += 1) {
    const body = `${poster}-${i}`;
    const number = await persistently(replicas, poster, async (replica) => {
      const reply = await replica.call('POST', '/v1/groups/team/messages', { body: { body, requestId: body } });
      if (reply.status === 200 || reply.status === 201) return (reply.body as { number: number }).number;
      throw new Error(JSON.stringify(reply.body));
    });
    answered.set(body, number);
  }
}

async function readAll(
  replicas: readonly Client[],
  at: number,
  cursor: number,
  total: number,
): Promise<ShownMessage[]> {
  const read: ShownMessage[] = [];
  for (let after = cursor; read.length < total;) {
    const page: MessagePage = await persistently(replicas, at, (replica) =>
      messagesOf(replica, 'team', `after=${after}&waitMs=2000`),
    );
    if (page.missed) throw new Error(`missed something behind ${after}`);
    read.push(...page.messages);
    after = page.cursor;
  }
  return read;
}

test(
  'readers at three replicas read every message once, in the same order, whoever dies (C60, C61)',
  { timeout: scaled(120_000) },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    await using bystander = await startReplica({ root });
    const replicas = [a, b, bystander];
    const cursor = await cursorOf(bystander, 'team');
    const answered = new Map<string, number>();
    const stopKilling = killInTurns([a, b]);
    let orders: ShownMessage[][];
    try {
      const readers = Array.from({ length: READERS }, (_, at) => readAll(replicas, at, cursor, POSTERS * POSTS));
      await Promise.all(Array.from({ length: POSTERS }, (_, poster) => postAll(replicas, poster, answered)));
      orders = await Promise.all(readers);
    } finally {
      await stopKilling();
    }
    const [first = []] = orders;
    for (const order of orders) expect(order).toEqual(first);
    const numbers = first.map(({ number }) => number);
    expect(numbers).toEqual([...numbers].sort((x, y) => x - y));
    expect(new Map(first.map(({ body, number }) => [body, number]))).toEqual(answered);
    // What a poster was told before it posted the next one stands before that.
    for (let poster = 0; poster < POSTERS; poster += 1) {
      const own = first.filter(({ body }) => String(body).startsWith(`${poster}-`)).map(({ body }) => body);
      expect(own).toEqual(Array.from({ length: POSTS }, (_, i) => `${poster}-${i}`));
    }
    console.log(`${first.length} messages, ${READERS} readers, ${POSTERS} who post`);
  },
);
