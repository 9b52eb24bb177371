/**
 * What one replica tidies up in queues, and what becomes of it when that replica dies over it: only the moment changes.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING, type HousekeepingTiming } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { HOUR } from '../../../../src/time.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { bodiesOf, claim, configure, peek, pop, push, pushBodies, queueOf } from '../client.js';
import { eventually, passed, throughout } from '../../../support/eventually.js';
import { Noise } from '../../../support/noise.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, startZooKeeper, type TestZooKeeper } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { runLog } from '../../../support/run-log.js';
import { startCuttable } from '../../../support/scene.js';

const BUSY: HousekeepingTiming = { ...HOUSEKEEPING_TIMING, everyMs: 50 };
const NONE: HousekeepingTiming = { ...HOUSEKEEPING_TIMING, everyMs: HOUR };
/** Of the replicas' own sessions, so that the place of a dead one is soon free. */
const SESSION_MS = 2_000;
/** Until a dead replica's session has ended, and another one has taken over. */
const TAKEOVER_MS = SESSION_MS + scaled(10_000);
/** Of which half a second is what the design promises; the rest is for servers that stand still for a moment. */
const LATE_MS = 2_000;
/** Each of two replicas knows the time to within half a round trip. */
const EARLY_MS = 100;

let zookeeper: TestZooKeeper;
beforeAll(async () => (zookeeper = await startZooKeeper({ config: { maxSessionTimeout: String(SESSION_MS) } })));
afterAll(() => zookeeper.stop());

function options(
  root: string,
  housekeeping = BUSY,
): { root: string; zookeeper: string; housekeeping: HousekeepingTiming } {
  return { root, zookeeper: zookeeper.connectString, housekeeping };
}

async function untilHousekeeper({ gateway }: Replica): Promise<void> {
  const { control, layout } = gateway.context;
  await eventually('it is the housekeeper', async () => {
    return (await control.exists(layout.housekeeper))?.ephemeralOwner === control.sessionId;
  });
}

/** Where the contents of the queue are. */
async function dataOf({ gateway }: Replica, queue: string): Promise<string> {
  const { control, layout } = gateway.context;
  const { data } = await control.getData(layout.queue('default', queue));
  return layout.queueData('default', (JSON.parse(data.toString('utf8')) as { id: string }).id);
}

async function isThere({ gateway }: Replica, path: string): Promise<boolean> {
  return (await gateway.context.control.exists(path)) !== undefined;
}

/** How many marks of messageIds a queue has. */
async function marksOf(replica: Replica, queue: string): Promise<number> {
  const { control } = replica.gateway.context;
  const dedup = `${await dataOf(replica, queue)}/dedup`;
  const buckets = (await control.getChildren(dedup)).children;
  const counts = await Promise.all(buckets.map((bucket) => control.getData(`${dedup}/${bucket}`)));
  return counts.reduce((sum, { stat }) => sum + stat.numChildren, 0);
}

/** Deletes the queue, as a replica would that dies before it has cleared the contents away. */
async function deleteAndDie(replica: Replica, queue: string): Promise<void> {
  const { control } = replica.gateway.context;
  const remove = control.removeRecursive.bind(control);
  control.removeRecursive = () => Promise.resolve();
  await replica.expect(204, 'DELETE', `/v1/queues/${queue}?force=true`);
  control.removeRecursive = remove;
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

function named(bodies: readonly number[]): { body: number; messageId: string }[] {
  return bodies.map((body) => ({ body, messageId: `m-${body}` }));
}

test('a delayed message that nobody asks for comes into its queue when it is due, and not before', async () => {
  await using pair = await startPair(options(freshRoot()));
  const delayMs = 1_500;
  const pushedAt = performance.now();
  await pushBodies(pair.a, 'work', [1], { delayMs });
  await throughout(
    'it waits',
    async () => (await queueOf(pair.b, 'work')).delayed === 1 || performance.now() - pushedAt >= delayMs - EARLY_MS,
    { forMs: delayMs - 500 },
  );
  await eventually('it is there', async () => (await queueOf(pair.b, 'work')).depth === 1);
  expect(performance.now() - pushedAt).toBeGreaterThanOrEqual(delayMs - EARLY_MS);
  expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 1, delayed: 0 });
  expect(await pop(pair.a, 'work')).toMatchObject([{ body: 1, deliveries: 1 }]);
});

test('marks of messageIds go when they have run out, and not before', async () => {
  await using pair = await startPair(options(freshRoot()));
  await configure(pair.a, 'short', { dedupWindowMs: 3_000 });
  await configure(pair.a, 'long');
  for (const queue of ['short', 'long']) {
    await push(pair.a, queue, named(upTo(30)));
    await push(pair.b, queue, named(upTo(30)));
    expect((await queueOf(pair.a, queue)).depth).toBe(30);
  }
  await eventually('they are gone', async () => (await marksOf(pair.a, 'short')) === 0);
  expect(await marksOf(pair.a, 'long')).toBe(30);
  for (const queue of ['short', 'long']) await push(pair.b, queue, named(upTo(2)));
  expect((await queueOf(pair.a, 'short')).depth).toBe(32);
  expect((await queueOf(pair.a, 'long')).depth).toBe(30);
});

test('what a queue held that was deleted goes, claimed messages and delayed ones too, and nothing else does', async () => {
  const root = freshRoot();
  await using a = await startReplica(options(root, NONE));
  const lease = await a.createLease({ ttlMs: SESSION_MS });
  await pushBodies(a, 'gone', upTo(5));
  await pushBodies(a, 'gone', [5], { delayMs: 60_000 });
  await pushBodies(a, 'stays', upTo(5));
  await claim(a, 'gone', lease, { max: 2 });
  const [gone, stays] = [await dataOf(a, 'gone'), await dataOf(a, 'stays')];
  await deleteAndDie(a, 'gone');
  await push(a, 'gone', [{ body: 'new' }]);
  expect(await isThere(a, `${gone}/delayed`)).toBe(true);
  await using b = await startReplica(options(root));
  await eventually('the contents are gone', async () => !(await isThere(b, gone)));
  expect(await isThere(b, stays)).toBe(true);
  expect(bodiesOf(await peek(b, 'stays'))).toEqual(upTo(5));
  expect(bodiesOf(await peek(a, 'gone'))).toEqual(['new']);
});

test('a queue that nothing can be done for holds up no other one, and no other namespace, and is told of (C90)', async () => {
  const root = freshRoot();
  const settings = { POSTERN_MAX_NAMES: '2' };
  await using a = await startReplica({ ...options(root, NONE), settings });
  await pushBodies(a, 'gone', [1]);
  const gone = await dataOf(a, 'gone');
  await deleteAndDie(a, 'gone');
  // What expires there is to go to a queue for which there is no room.
  const config = { order: 'fifo', deadLetterExpired: true, deadLetterQueue: 'dead' };
  const messages = [
    { body: 'over', expiresInMs: 1 },
    { body: 'due', delayMs: 200 },
  ];
  const stuck = ['default', 'elsewhere'].flatMap((namespace) =>
    ['one', 'two'].map((name) => ({ path: `/v1/queues/${name}`, headers: { namespace } })),
  );
  for (const { path, headers } of stuck) {
    await a.expect(201, 'PUT', path, { body: config, headers });
    await a.expect(201, 'POST', `${path}/messages`, { body: { messages }, headers });
  }
  await using b = await startReplica({ ...options(root), settings });
  for (const { path, headers } of stuck)
    await eventually(`what is due is there: ${path} in ${headers.namespace}`, async () => {
      return ((await b.expect(200, 'GET', path, { headers })) as { depth: number }).depth === 2;
    });
  await eventually('the contents are gone', async () => !(await isThere(a, gone)));
  const said = runLog.lines().map(({ msg }) => msg);
  for (const name of ['one', 'two'])
    expect(said).toContain(`housekeeping of queue "${name}" in namespace "elsewhere" failed; retrying`);
});

test(
  'a delayed message comes in time to who waits, although the housekeeper, whose turn it was, died over it',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using dying = await startCuttable(options(root), zookeeper.connectString);
    await untilHousekeeper(dying.replica);
    await using b = await startReplica(options(root));
    await pushBodies(b, 'work', [0]);
    expect(bodiesOf(await pop(dying.replica, 'work'))).toEqual([0]);
    const cut = new AbortController();
    const body = { waitMs: 30_000 };
    const first = dying.replica.call('POST', '/v1/queues/work/pop', { body, signal: cut.signal }).catch(() => 'cut');
    await eventually('it waits there', async () => (await queueOf(b, 'work')).consumersWaiting === 1);
    using noise = new Noise();
    const delayMs = 3_000;
    const pushedAt = performance.now();
    await pushBodies(b, 'work', ['later'], { delayMs });
    const answeredAt = performance.now();
    const waiting = pop(b, 'work', { waitMs: 30_000 });
    await throughout('it is not there', async () => (await queueOf(b, 'work')).delayed === 1);
    dying.proxy.refuse();
    dying.proxy.cut();
    expect(bodiesOf(await waiting)).toEqual(['later']);
    expect(performance.now() - pushedAt).toBeGreaterThanOrEqual(delayMs - EARLY_MS);
    expect(performance.now() - answeredAt - noise.ms).toBeLessThan(delayMs + scaled(LATE_MS));
    cut.abort();
    expect(await first).toBe('cut');
  },
);

test(
  'a housekeeper that dies while it moves messages that are due has moved each of them once, or another one does',
  { timeout: scaled(90_000) },
  async () => {
    const root = freshRoot();
    await using dying = await startCuttable(options(root), zookeeper.connectString);
    await untilHousekeeper(dying.replica);
    await using b = await startReplica(options(root));
    const count = 300;
    const delayMs = 4_000; // none is due before its housekeeper is to die over them
    await pushBodies(b, 'work', upTo(count), { delayMs });
    // Nobody asks, so nobody else moves them. Of its transactions the first is done, and it does not hear of that.
    const dies = dying.proxy.loseReply(OPCODE.multi).then(() => dying.proxy.refuse());
    await eventually('it dies over them', () => Promise.race([dies.then(() => true), passed(10).then(() => false)]), {
      withinMs: delayMs + scaled(10_000),
    });
    await eventually('all of them are there', async () => (await queueOf(b, 'work')).depth === count, {
      withinMs: TAKEOVER_MS,
    });
    dying.proxy.accept();
    await eventually('it is back', () => dying.replica.gateway.context.control.connected, { withinMs: TAKEOVER_MS });
    const popped: unknown[] = [];
    while (popped.length < count) popped.push(...bodiesOf(await pop(b, 'work', { max: 100, waitMs: 1_000 })));
    expect(popped.sort((x, y) => Number(x) - Number(y))).toEqual(upTo(count));
    await throughout('nothing comes twice', async () => {
      const { depth, delayed } = await queueOf(b, 'work');
      return depth === 0 && delayed === 0;
    });
  },
);

test(
  'a housekeeper that dies while it clears away leaves the rest to another one, and what is in use alone',
  { timeout: scaled(90_000) },
  async () => {
    const root = freshRoot();
    await using dying = await startCuttable(options(root), zookeeper.connectString);
    await untilHousekeeper(dying.replica);
    await using b = await startReplica(options(root));
    await pushBodies(b, 'gone', upTo(300));
    await configure(b, 'work', { dedupWindowMs: 300 });
    await push(b, 'work', named(upTo(20)));
    const gone = await dataOf(b, 'gone');
    const dies = dying.proxy.loseReply(OPCODE.delete, OPCODE.multi).then(() => dying.proxy.refuse());
    await deleteAndDie(b, 'gone');
    await eventually('it dies over it', () => Promise.race([dies.then(() => true), passed(10).then(() => false)]));
    await eventually(
      'contents and marks are gone',
      async () => !(await isThere(b, gone)) && (await marksOf(b, 'work')) === 0,
      {
        withinMs: TAKEOVER_MS,
      },
    );
    await untilHousekeeper(b);
    expect(bodiesOf(await peek(b, 'work'))).toEqual(upTo(20));
    dying.proxy.accept();
  },
);
