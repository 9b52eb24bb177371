import { expect, test } from 'vitest';
import type { Operation } from '../../src/zookeeper/operations.js';
import { quorumCheck } from '../../src/zookeeper/operations/session.js';
import { QuorumReads } from '../../src/zookeeper/quorum-reads.js';
import { eventually, throughout } from '../support/eventually.js';
import { freshRoot, sharedZooKeeper, startEnsemble } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';
import { ensembleOf, TestControl, within } from '../support/zookeeper/sessions.js';

/** One that shows what it submits. */
class OpenControl extends TestControl {
  send<T>(operation: Operation<T>): Promise<T> {
    return this.submit(operation, within());
  }
}

test('a thousand reads at once cost two transactions, and each sees what was done before it (C37)', async () => {
  const ensemble = ensembleOf(sharedZooKeeper());
  await using control = new TestControl(ensemble);
  control.start();
  const path = `${freshRoot()}-counted`;
  await control.create(path, undefined, {}, within());
  let written = 0;
  const read = async (): Promise<void> => {
    const before = written;
    const { version } = (await control.readLatest(() => control.exists(path, within()), within())) ?? { version: -1 };
    expect(version).toBeGreaterThanOrEqual(before);
  };
  await Promise.all([
    ...Array.from({ length: 1_000 }, read),
    control.setData(path, Buffer.from('x'), undefined, within()).then(() => (written = 1)),
  ]);
  await Promise.all(Array.from({ length: 1_000 }, read));
  expect(ensemble.observer.requests.filter((name) => name === 'quorum')).toHaveLength(4);
});

test('who asks while a transaction is on its way reads behind the next one, and shares it', async () => {
  const sent: (() => void)[] = [];
  const reads = new QuorumReads(() => new Promise<void>((resolve) => sent.push(resolve)));
  const told: string[] = [];
  const ask = (name: string): Promise<unknown> =>
    reads.read(() => Promise.resolve(told.push(`${name} behind ${sent.length}`)), within());
  const asked = [ask('a'), ask('b'), ask('c')];
  await eventually('the first reads', () => told.length === 1);
  await throughout('no other transaction is sent', () => sent.length === 1 && told.length === 1);
  sent[0]?.();
  await eventually('the others read', () => told.length === 3);
  sent[1]?.();
  await Promise.all(asked);
  expect(told).toEqual(['a behind 1', 'b behind 2', 'c behind 2']);
  const last = ask('d');
  await eventually('it begins anew', () => sent.length === 3);
  sent[2]?.();
  await last;
});

test('a read is nobody’s answer without a quorum behind it, and keeps its own deadline', async () => {
  const reads = new QuorumReads(() => new Promise<void>(() => undefined));
  const begun = performance.now();
  await expect(reads.read(() => Promise.resolve('past'), within(50))).rejects.toMatchObject({
    code: 'zookeeper-unavailable',
  });
  await expect(reads.read(() => Promise.resolve('past'), within(50))).rejects.toMatchObject({
    code: 'zookeeper-unavailable',
  });
  expect(performance.now() - begun).toBeLessThan(timing.eventuallyMs);
});

test(
  'a transaction that only checks is one, also when its check fails: without a quorum there is no answer',
  { timeout: scaled(60_000) },
  async () => {
    await using ensemble = await startEnsemble();
    const leader = await ensemble.leader();
    const followers = await ensemble.followers();
    await using control = new OpenControl(ensembleOf(leader.connectString));
    control.start();
    const zxid = async (): Promise<number> => control.sync('/', within());
    const first = await zxid();
    await control.send(quorumCheck('/'));
    const second = await zxid();
    await expect(control.send(quorumCheck('/nowhere'))).rejects.toMatchObject({ reason: 'NO_NODE' });
    expect([second - first, (await zxid()) - second]).toEqual([1, 1]);
    for (const follower of followers) follower.pause();
    const answered: string[] = [];
    const sent = ['/', '/nowhere'].map((path) =>
      control.send(quorumCheck(path)).then(
        () => answered.push(path),
        () => undefined,
      ),
    );
    await throughout('neither is answered', () => answered.length === 0);
    for (const follower of followers) follower.resume();
    await Promise.all(sent);
  },
);
