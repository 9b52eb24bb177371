/** Runs, where answers are lost, leases end and others come in between (protocol C48). */
import { describe, expect, test } from 'vitest';
import { TidyRuns } from '../../../../src/recipes/run/tidy.js';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { eventually, passed } from '../../../support/eventually.js';
import { beforeMulti, startCuttable } from '../../../support/scene.js';
import { expireSession, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { call, finish, leaseFor, NAME, show, start, started } from '../client.js';

/** When the replica is about to write to the run. */
function beforeRunIsWritten(replica: Replica, meanwhile: () => unknown): void {
  const path = replica.gateway.context.layout.run('default', NAME);
  beforeMulti(replica, meanwhile, (operations) => operations.some((one) => one.path === path));
}

describe('a lost answer', () => {
  test.each(['loseReply', 'loseRequest'] as const)(
    'of ZooKeeper (%s) starts an occurrence once, and finishes it once',
    async (lose) => {
      const root = freshRoot();
      await using cuttable = await startCuttable({ root });
      await using b = await startReplica({ root });
      const { replica: a, proxy } = cuttable;
      const [lease, other] = [await leaseFor(b), await leaseFor(b)];
      await started(b, lease, 'first');
      let lost: Promise<void> | undefined;
      beforeRunIsWritten(a, () => void (lost = proxy[lose](OPCODE.multi)));
      expect(await started(a, lease, 'monday')).toMatchObject({ attempt: 1 });
      await lost;
      expect(await start(b, other, 'monday')).toMatchObject({ started: false, state: 'running', attempt: 1 });
      let lostToo: Promise<void> | undefined;
      beforeRunIsWritten(a, () => void (lostToo = proxy[lose](OPCODE.multi)));
      expect((await finish(a, lease, 'monday', 'failed')).body).toMatchObject({ state: 'open', attempt: 1 });
      await lostToo;
      expect([lost, lostToo]).not.toContain(undefined);
      expect((await show(b))[0]).toMatchObject({ occurrence: 'monday', state: 'open', attempt: 1 });
      expect(await started(b, other, 'monday')).toMatchObject({ attempt: 2 });
    },
  );

  test('for good is outcome-unknown, and the same request at another replica finds the attempt', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({
      root,
      settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) },
    });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const lease = await leaseFor(b);
    await started(b, lease, 'first');
    let lost: Promise<void> | undefined;
    beforeRunIsWritten(a, () => void (lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse())));
    const unknown = await call(a, 'start', lease, { occurrence: 'monday' });
    await lost;
    expect(unknown).toMatchObject({ status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } });
    expect((await show(b))[0]).toMatchObject({ occurrence: 'monday', state: 'running' });
    expect(await started(b, lease, 'monday')).toMatchObject({ attempt: 1 });
  });
});

describe('between the reading and the write', () => {
  test('the lease ends: nobody is started, and nothing is finished', async () => {
    await using pair = await startPair();
    const [first, second] = [await leaseFor(pair.a), await leaseFor(pair.a)];
    await started(pair.a, second, 'before');
    beforeRunIsWritten(pair.a, () => expireSession(pair.b, first.leaseId));
    expect((await call(pair.a, 'start', first, { occurrence: 'monday' })).status).toBe(410);
    expect((await show(pair.b)).map(({ occurrence }) => occurrence)).toEqual(['before']);
    beforeRunIsWritten(pair.a, () => expireSession(pair.b, second.leaseId));
    expect((await finish(pair.a, second, 'before')).status).toBe(410);
    expect((await show(pair.b))[0]).toMatchObject({ occurrence: 'before', state: 'open' });
  });

  test('somebody else starts the occurrence, or finishes it: the later one is told so', async () => {
    await using pair = await startPair();
    const [first, second] = [await leaseFor(pair.a), await leaseFor(pair.a)];
    await started(pair.a, second, 'before');
    beforeRunIsWritten(pair.a, () => started(pair.b, second, 'monday'));
    expect(await start(pair.a, first, 'monday')).toMatchObject({ started: false, state: 'running', attempt: 1 });
    beforeRunIsWritten(pair.a, async () => {
      await started(pair.b, second, 'tuesday');
      await finish(pair.b, second, 'tuesday');
    });
    expect(await start(pair.a, first, 'tuesday')).toMatchObject({ started: false, state: 'done' });
  });

  test('the attempt is lost and made anew: the finish of the old one changes nothing', async () => {
    await using pair = await startPair();
    const [first, second] = [await leaseFor(pair.a), await leaseFor(pair.a)];
    await started(pair.a, first, 'monday');
    beforeRunIsWritten(pair.a, async () => {
      await expireSession(pair.b, first.leaseId);
      await started(pair.b, second, 'monday');
    });
    expect((await finish(pair.a, first, 'monday')).body).toMatchObject({ code: 'not-holder', attempt: 2 });
    expect((await show(pair.b))[0]).toMatchObject({ state: 'running', attempt: 2 });
  });
});

test('runs that have not changed for long are removed, except while an attempt runs; others stay', async () => {
  await using replica = await startReplica();
  const { context } = replica.gateway;
  const lease = await leaseFor(replica);
  const historyMs = scaled(150);
  await started(replica, lease, 'monday');
  const sweep = (): Promise<void> => new TidyRuns(context, historyMs).sweep(new Sweep(context, () => false));
  const isThere = async (): Promise<boolean> =>
    (await context.control.exists(context.layout.run('default', NAME))) !== undefined;
  await passed(2 * historyMs);
  await sweep();
  expect(await isThere()).toBe(true);
  await new TidyRuns(context, 3_600_000).sweep(new Sweep(context, () => false));
  await finish(replica, lease, 'monday');
  await new TidyRuns(context, 3_600_000).sweep(new Sweep(context, () => false));
  expect(await isThere()).toBe(true);
  await eventually('it is removed', async () => {
    await sweep();
    return !(await isThere());
  });
  expect(await show(replica)).toEqual([]);
});
