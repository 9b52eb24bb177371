/** Schedules, where replicas fire at once, answers are lost and others come in between (protocol C49 to C51). */
import { describe, expect, test } from 'vitest';
import { pushMessages } from '../../../../src/recipes/queue/push/push.js';
import { Firing } from '../../../../src/recipes/schedule/firing.js';
import { decodeSchedule, encodeSchedule } from '../../../../src/recipes/schedule/schedule.js';
import { HOUR, SECOND } from '../../../../src/time.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { eventually, passed } from '../../../support/eventually.js';
import { beforeMulti, startCuttable } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { expectEverySecond, NAME, occurrencesOf, popAll, put, SECONDS, show } from '../client.js';

/** Somebody else has the office, and does nothing: replicas fire only what a test tells them to. */
async function nobodyFires({ gateway }: Replica): Promise<void> {
  const { control, layout } = gateway.context;
  await control.create(layout.scheduler);
}

/** Fires without being elected. */
function firingOf({ gateway }: Replica): Firing {
  const { queue } = gateway.recipes;
  const push: ConstructorParameters<typeof Firing>[1]['push'] = (namespace, name, message, awaited) =>
    pushMessages(queue.queues, namespace, name, [message], awaited);
  return new Firing(gateway.context, { push, orderOf: () => Promise.resolve('fifo') }, HOUR);
}

/** Sets back what is due: as if nobody had fired for so long. */
async function setBack({ gateway }: Replica, ms: number): Promise<void> {
  const { control, layout } = gateway.context;
  const path = layout.schedule('default', NAME);
  const node = await control.getData(path);
  const record = decodeSchedule(NAME, node);
  await control.setData(path, encodeSchedule({ ...record, dueAt: record.dueAt! - ms }), node.stat.version);
}

function refOf({ gateway }: Replica) {
  return gateway.recipes.schedule.schedules.ref('default', NAME);
}

/** Fires until nothing is due. */
async function catchUp({ gateway }: Replica, fire: () => ReturnType<Firing['fire']>): Promise<void> {
  await eventually('nothing is due', async () => {
    const { record } = (await fire())!;
    return record.dueAt! > gateway.context.zooKeeperClock.now();
  });
}

/** When the replica is about to push an occurrence. */
function beforePush(replica: Replica, meanwhile: () => unknown): void {
  const { path } = refOf(replica);
  beforeMulti(replica, meanwhile, (operations) => operations.some((one) => one.path === path));
}

/** How many znodes there are below a node. */
async function countBelow(replica: Replica, path: string): Promise<number> {
  const { children } = await replica.gateway.context.control.getChildren(path);
  const counts = await Promise.all(children.map((child) => countBelow(replica, `${path}/${child}`)));
  return counts.reduce((sum, count) => sum + count, children.length);
}

describe('exactly once', () => {
  test('when two replicas believe that they fire: each occurrence is pushed by one of them, and nothing piles up', async () => {
    await using pair = await startPair({ settings: SECONDS });
    await nobodyFires(pair.a);
    const firings = [firingOf(pair.a), firingOf(pair.b)];
    await put(pair.a);
    const ref = refOf(pair.a);
    await setBack(pair.a, 20 * SECOND);
    const both = async () => (await Promise.all(firings.map((firing) => firing.fire(ref))))[0];
    await catchUp(pair.a, both);
    const before = occurrencesOf(await popAll(pair.b));
    expect(before.length).toBeGreaterThanOrEqual(20);
    const { root } = pair.a.gateway.context.layout;
    const nodes = await countBelow(pair.a, root);
    const { dueAt } = await show(pair.a);
    await setBack(pair.a, 100 * SECOND);
    await catchUp(pair.b, both);
    const after = occurrencesOf(await popAll(pair.a));
    expectEverySecond(before);
    expectEverySecond(after);
    expect(after[0]).toBe(Date.parse(dueAt!) - 100 * SECOND);
    expect(after.length).toBeGreaterThanOrEqual(100);
    expect(await countBelow(pair.a, root)).toBeLessThanOrEqual(nodes + 10);
    expect((await pair.a.gateway.context.control.getData(ref.path)).data.length).toBeLessThan(500);
  });

  test.each(['loseReply', 'loseRequest'] as const)('when ZooKeeper does not answer the push (%s)', async (lose) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root, settings: SECONDS });
    await using b = await startReplica({ root, settings: SECONDS });
    const { replica: a, proxy } = cuttable;
    await nobodyFires(b);
    const [firing, other] = [firingOf(a), firingOf(b)];
    await put(b);
    await setBack(b, 5 * SECOND);
    await firing.fire(refOf(a));
    const losses: Promise<void>[] = [];
    for (let i = 0; i < 3; i += 1) {
      beforePush(a, () => void losses.push(proxy[lose](OPCODE.multi)));
      await firing.fire(refOf(a)).catch(() => undefined);
      await Promise.all(losses);
    }
    expect(losses).toHaveLength(3);
    await catchUp(b, () => other.fire(refOf(b)));
    const occurrences = occurrencesOf(await popAll(b));
    expect(occurrences.length).toBeGreaterThanOrEqual(5);
    expectEverySecond(occurrences);
  });

  test('when the schedule is deleted and made again before the push: the old one is not pushed any more', async () => {
    await using pair = await startPair({ settings: SECONDS });
    await nobodyFires(pair.b);
    const firing = firingOf(pair.a);
    const ref = refOf(pair.a);
    await put(pair.b, { to: { queue: 'jobs', body: 'old' } });
    await setBack(pair.b, 3 * SECOND);
    beforePush(pair.a, async () => {
      await pair.b.expect(204, 'DELETE', `/v1/schedules/${NAME}`);
      await put(pair.b, { cron: '0 3 * * *', to: { queue: 'jobs', body: 'new' } });
      // As many writes as the old one had: its version alone does not tell them apart.
      await setBack(pair.b, 0);
    });
    await firing.fire(ref);
    expect(await popAll(pair.b)).toEqual([]);
    expect(await show(pair.b)).toMatchObject({ cron: '0 3 * * *', to: { body: 'new' } });
    await pair.b.expect(204, 'DELETE', `/v1/schedules/${NAME}`);
    expect(await firing.fire(ref)).toBeUndefined();
  });

  test('when it is written anew at that moment: the occurrence goes to the new queue', async () => {
    await using pair = await startPair({ settings: SECONDS });
    await nobodyFires(pair.b);
    const firing = firingOf(pair.a);
    await put(pair.b, { to: { queue: 'old', body: 1 } });
    await setBack(pair.b, 3 * SECOND);
    beforePush(pair.a, () => put(pair.b, { to: { queue: 'new', body: 2 } }));
    await firing.fire(refOf(pair.a));
    expect(await popAll(pair.b, 'old')).toEqual([]);
    expect(await popAll(pair.b, 'new')).toMatchObject([{ body: 2 }]);
  });
});

describe('another replica takes over', () => {
  test('at once when the one that fires shuts down', async () => {
    const options = { root: freshRoot(), settings: SECONDS };
    const a = await startReplica(options);
    await put(a);
    await eventually('it fires', async () => (await show(a)).fired);
    await using b = await startReplica(options);
    expect(await b.metric('postern_schedules')).toBe(0);
    await a[Symbol.asyncDispose]();
    await eventually('the other one fires', async () => (await b.metric('postern_schedule_occurrences_total')) >= 2);
    expect(await b.metric('postern_schedules')).toBe(1);
    expectEverySecond(occurrencesOf(await popAll(b)));
  });

  test('far away from ZooKeeper, and reads the schedules of many namespaces in time', async () => {
    const root = freshRoot();
    const b = await startReplica({ root });
    const namespaces = Array.from({ length: 30 }, (_, i) => `team-${i}`);
    for (const namespace of namespaces)
      await b.expect(201, 'PUT', `/v1/schedules/${NAME}`, {
        body: { cron: '0 3 * * *', to: { queue: 'jobs', body: 1 } },
        headers: { namespace },
      });
    await using cuttable = await startCuttable({ root });
    const { replica: a, proxy } = cuttable;
    proxy.delay('fromZooKeeper', 400);
    await b[Symbol.asyncDispose]();
    await eventually(
      'the other one knows all',
      async () => (await a.metric('postern_schedules')) === namespaces.length,
    );
  });

  test('and fires beside one that was deposed and does not know it, each occurrence once', async () => {
    await using pair = await startPair({ settings: SECONDS });
    await put(pair.a);
    const fires = async (replica: Replica): Promise<boolean> => (await replica.metric('postern_schedules')) === 1;
    await eventually('one of them fires', async () => (await fires(pair.a)) || (await fires(pair.b)));
    const { control, layout } = pair.a.gateway.context;
    await control.delete(layout.scheduler);
    await eventually('both of them do', async () => (await fires(pair.a)) && (await fires(pair.b)));
    const { fired } = await eventually('it was fired', async () => {
      const shown = await show(pair.a);
      return shown.fired && shown;
    });
    await eventually('it is fired on', async () => (await show(pair.b)).fired!.occurrence > fired!.occurrence);
    await eventually('and on', async () => Date.parse((await show(pair.b)).fired!.occurrence) > Date.now() - SECOND);
    expectEverySecond(occurrencesOf(await popAll(pair.b)));
  });
});

test('when no replica was there, "skip" goes on with what is in time, and "once" pushes the latest that was missed', async () => {
  const root = freshRoot();
  // What a busy machine pushes late by less than this is in time.
  const graceMs = scaled(1_000);
  const options = { root, settings: { ...SECONDS, POSTERN_SCHEDULE_GRACE_MS: String(graceMs) } };
  {
    await using replica = await startReplica(options);
    for (const misfire of ['skip', 'once'] as const) await put(replica, { misfire }, misfire);
    await eventually(
      'both are pushed',
      async () => (await show(replica, 'skip')).fired && (await show(replica, 'once')).fired,
    );
  }
  const downAt = Date.now();
  await passed(graceMs + 3 * SECOND);
  await using replica = await startReplica(options);
  await eventually('both go on', async () => {
    const shown = await Promise.all(['skip', 'once'].map((name) => show(replica, name)));
    return shown.every(
      ({ fired, missed }) => missed !== undefined && Date.parse(fired!.occurrence) > downAt + graceMs + 5 * SECOND,
    );
  });
  await replica.expect(204, 'DELETE', '/v1/schedules/skip');
  // Nothing of it is pushed or missed any more.
  const once = await put(replica, { misfire: 'once', paused: true }, 'once');
  const messages = (await popAll(replica)) as (Awaited<ReturnType<typeof popAll>>[number] & { enqueuedAt: string })[];
  for (const name of ['skip', 'once']) {
    const occurrences = occurrencesOf(messages, name);
    const gaps = occurrences.slice(1).map((occurrence, i) => occurrence - occurrences[i]! - SECOND);
    // There are more where the machine stood still for longer than the grace: they are counted too.
    expect(gaps[occurrences.findIndex((occurrence) => occurrence > downAt) - 1]).toBeGreaterThan(0);
    if (name === 'once') expect(once.missed?.count).toBe(gaps.reduce((sum, gap) => sum + gap, 0) / SECOND);
  }
  /** Pushed later than the grace allows. */
  const late = messages.filter(
    ({ enqueuedAt, attributes }) => Date.parse(enqueuedAt) - Date.parse(attributes.occurrence) > graceMs,
  );
  expect(late.filter(({ attributes }) => attributes.schedule === 'once')).not.toEqual([]);
});
