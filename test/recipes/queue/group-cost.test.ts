/** What a message of a grouped queue costs does not depend on how many groups there are (ADR 34). */
import { expect, test } from 'vitest';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';
import { claim, configure, queueOf, settleAll } from './client.js';

/** `MESSAGE_GROUPS=100000` for more of them. */
const MESSAGES = Number(process.env['MESSAGE_GROUPS'] ?? 4_000);
const PUSHED_AT_ONCE = 1_000;
const CLAIMED_AT_ONCE = 10;
const FEW = 10;
/** That the replica sends to ZooKeeper of its own accord meanwhile, and what the segments cost. */
const NOISE = 2;

/** All that the replica has sent to ZooKeeper. */
async function requests(replica: Replica): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  let sum = 0;
  for (const [, count] of page.matchAll(/^postern_zookeeper_request_duration_seconds_count\{op="\w+"\} (\d+)$/gm))
    sum += Number(count);
  return sum;
}

/** @returns the requests for each message that was claimed and acknowledged */
async function costOf(groups: number): Promise<number> {
  await using replica = await startReplica({ root: freshRoot() });
  const lease = await replica.createLease({ ttlMs: 60_000 });
  await configure(replica, 'work', { order: 'grouped' });
  for (let pushed = 0; pushed < MESSAGES; pushed += PUSHED_AT_ONCE) {
    const messages = Array.from({ length: PUSHED_AT_ONCE }, (_, i) => ({
      body: pushed + i,
      group: `g${(pushed + i) % groups}`,
    }));
    await replica.expect(201, 'POST', '/v1/queues/work/messages', { body: { messages } });
  }
  const before = await requests(replica);
  for (let taken = 0; taken < MESSAGES;) {
    const items = await claim(replica, 'work', lease, { max: CLAIMED_AT_ONCE });
    expect(items).toHaveLength(CLAIMED_AT_ONCE);
    taken += items.length;
    await settleAll(replica, 'work', 'ack', lease, items);
    if (taken % PUSHED_AT_ONCE === 0) await replica.heartbeat(lease);
  }
  const cost = ((await requests(replica)) - before) / MESSAGES;
  expect(await queueOf(replica, 'work')).toMatchObject({ depth: 0 });
  return cost;
}

test(
  'with as many groups as messages it costs what it does with ten',
  { timeout: scaled(15 * Math.max(4_000, MESSAGES)) },
  async () => {
    const few = await costOf(FEW);
    const many = await costOf(MESSAGES);
    console.log(`requests for each message: ${few.toFixed(3)} with ${FEW} groups, ${many.toFixed(3)} with ${MESSAGES}`);
    expect(many).toBeLessThan(few * NOISE);
  },
);
