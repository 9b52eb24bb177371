/** Writes of many requests in few transactions, against a real server behind a proxy. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Backlog } from '../../src/zookeeper/connection/backlog.js';
import { OPCODE, type MultiOperation } from '../../src/zookeeper/operations.js';
import { eventually } from '../support/eventually.js';
import { freshRoot, startZooKeeper, type TestZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import {
  controlIn,
  NOTHING_SENT,
  OUTCOME_UNKNOWN,
  rejection,
  within,
  TestControl,
} from '../support/zookeeper/sessions.js';

const CLIENT_GONE = { name: 'ClientGoneError' };

let zookeeper: TestZooKeeper;
beforeAll(async () => {
  zookeeper = await startZooKeeper({ proxied: true });
});
afterEach(() => zookeeper.proxy.heal());
afterAll(() => zookeeper.stop());

/** A session with the nodes /0, /1, … in its chroot; another one, which no fault reaches, makes them. */
async function open(
  nodes: number,
): Promise<{ root: string; control: TestControl; other: TestControl } & AsyncDisposable> {
  const root = freshRoot();
  const other = await controlIn(`127.0.0.1:${zookeeper.port}`, root);
  const control = await controlIn(zookeeper.connectString, root);
  for (let i = 0; i < nodes; i += 1) await other.create(`/${i}`);
  const dispose = async (): Promise<void> => {
    await control.stop();
    await other.stop();
  };
  return { root, control, other, [Symbol.asyncDispose]: dispose };
}

async function names(control: TestControl): Promise<string[]> {
  return (await control.getChildren('/')).children.sort();
}

/** The requests that it sends while `work` is done. */
async function requestsOf(control: TestControl, work: () => Promise<unknown>): Promise<string[]> {
  const before = control.observer.requests.length;
  await work();
  return control.observer.requests.slice(before);
}

describe('writes of one moment', () => {
  it('share transactions, two of which are in flight at most', async () => {
    await using opened = await open(40);
    const { control } = opened;
    const removeAll = (): Promise<unknown> =>
      Promise.all(Array.from({ length: 40 }, (_, i) => control.groupCommit.until(within()).remove(`/${i}`)));
    expect(await requestsOf(control, removeAll)).toEqual(['multi']);
    expect(await names(control)).toEqual([]);
    expect(control.observer.commits).toEqual([40]);
  });

  it('each have the results of their own operations', async () => {
    await using opened = await open(3);
    const { control } = opened;
    const zk = control.groupCommit.until(within());
    const [stat, , results] = await Promise.all([
      zk.set('/0', Buffer.from('zero'), 0),
      zk.remove('/1'),
      zk.multi([
        { type: 'check', path: '/2', version: 0 },
        { type: 'create', path: '/2/below', data: Buffer.from('x') },
      ]),
    ]);
    expect(stat.version).toBe(1);
    expect(results).toMatchObject([{ type: 'check' }, { type: 'create', path: '/2/below' }]);
    expect((await control.getData('/0')).data.toString()).toBe('zero');
    expect(control.observer.commits).toEqual([3]);
  });

  it('that are alone go out as they are', async () => {
    await using opened = await open(2);
    const { control } = opened;
    const sent = await requestsOf(control, async () => {
      const zk = control.groupCommit.until(within());
      await zk.set('/0', Buffer.from('x'));
      await zk.remove('/1');
    });
    expect(sent).toEqual(['setData', 'delete']);
  });

  it('that come while as many as may be are in flight go into the next one', async () => {
    await using opened = await open(30);
    const { control } = opened;
    zookeeper.proxy.pause('fromZooKeeper');
    const done: Promise<void>[] = [];
    for (let i = 0; i < 30; i += 1) {
      done.push(control.groupCommit.until(within()).remove(`/${i}`));
      await new Promise(setImmediate); // a turn of the event loop, in which connections flush
    }
    expect(control.groupCommit.waiting).toBe(28);
    zookeeper.proxy.resume();
    await Promise.all(done);
    expect(control.observer.commits).toEqual([1, 1, 28]);
    expect(control.observer.failedCommits).toEqual([]);
    expect(control.groupCommit.waiting).toBe(0);
  });

  it('are as many in one transaction as a packet bears', async () => {
    await using opened = await open(12);
    const { control } = opened;
    const data = Buffer.alloc(100_000, 'x');
    const all = Array.from({ length: 12 }, (_, i) => control.groupCommit.until(within()).set(`/${i}`, data));
    await Promise.all(all);
    expect(control.observer.commits).toEqual([2, 2, 2, 2, 2, 2]);
  });
});

describe('the backlog', () => {
  it('has every write that waits for a transaction, and how long it waited', async () => {
    await using opened = await open(30);
    const backlog = new Backlog();
    await using control = await TestControl.open(zookeeper.connectString + opened.root, {}, { backlog });
    zookeeper.proxy.pause('fromZooKeeper');
    const done = Array.from({ length: 30 }, async (_, i) => {
      await Promise.resolve();
      return control.groupCommit.until(within()).set(`/${i % 15}`, Buffer.from(String(i)));
    });
    await eventually('two transactions are in flight', () => control.observer.commits.length === 2);
    expect(control.groupCommit.waiting).toBe(0);
    const waiting = Array.from({ length: 15 }, (_, i) => control.groupCommit.until(within()).remove(`/${i}`));
    expect(control.groupCommit.waiting).toBe(15);
    expect(backlog.size).toBe(30 + 2 + 15);
    const from = performance.now();
    await eventually('they have waited', () => performance.now() - from > 100);
    zookeeper.proxy.resume();
    await Promise.all([...done, ...waiting]);
    expect(backlog.size).toBe(0);
    const { answers, delayMs } = backlog.take(performance.now());
    expect(answers).toBe(30 + 15 + control.observer.commits.length);
    expect(delayMs).toBeGreaterThan(90);
  });

  it('forgets those that were not answered', async () => {
    await using opened = await open(10);
    const backlog = new Backlog();
    await using control = await TestControl.open(zookeeper.connectString + opened.root, {}, { backlog });
    zookeeper.proxy.pause('fromZooKeeper');
    const deadline = performance.now() + scaled(150);
    const late = Array.from({ length: 10 }, async (_, i) => {
      await Promise.resolve();
      return rejection(control.groupCommit.until(deadline).remove(`/${i}`));
    });
    await Promise.all(late);
    zookeeper.proxy.resume();
    await eventually('nothing is under way', () => backlog.size === 0);
  });
});

describe('a write that fails', () => {
  it('is told its own failure, and the others are done', async () => {
    await using opened = await open(10);
    const { control } = opened;
    await control.delete('/3');
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 9 }, (_, i) => control.groupCommit.until(within()).remove(`/${i}`)),
      control.groupCommit.until(within()).multi([
        { type: 'check', path: '/' },
        { type: 'setData', path: '/9', data: Buffer.from('x'), version: 7 },
      ]),
    ]);
    const refused = outcomes.flatMap((outcome, i) =>
      outcome.status === 'rejected' ? [{ i, reason: outcome.reason as unknown }] : [],
    );
    expect(refused).toMatchObject([
      { i: 3, reason: { reason: 'NO_NODE' } },
      { i: 9, reason: { reason: 'BAD_VERSION', failedIndex: 1 } },
    ]);
    expect(await names(control)).toEqual(['9']);
    expect(control.observer.failedCommits).toEqual(['refused']);
  });

  it('because another one of the same moment did the same is told so only once that is done', async () => {
    await using opened = await open(1);
    const { control, other } = opened;
    const seen = control.groupCommit
      .until(within())
      .remove('/0')
      .then(() => 'removed');
    const second = rejection(control.groupCommit.until(within()).remove('/0')).then(async (error) => ({
      error,
      left: await names(other),
    }));
    expect(await seen).toBe('removed');
    expect(await second).toMatchObject({ error: { reason: 'NO_NODE' }, left: [] });
  });

  it('leaves a check that others share to each of them', async () => {
    await using opened = await open(3);
    const { control } = opened;
    const guarded = (path: string, version: number): MultiOperation[] => [
      { type: 'check', path: '/0', version },
      { type: 'delete', path },
    ];
    const zk = control.groupCommit.until(within());
    const [kept, removed] = await Promise.allSettled([zk.multi(guarded('/1', 4)), zk.multi(guarded('/2', 0))]);
    expect(kept).toMatchObject({ status: 'rejected', reason: { reason: 'BAD_VERSION', failedIndex: 0 } });
    expect(removed.status).toBe('fulfilled');
    expect(await names(control)).toEqual(['0', '1']);
  });
});

describe('the end of the session', () => {
  it('comes after the writes that wait for their turn', async () => {
    await using opened = await open(9);
    const { control, other } = opened;
    const removals: Promise<void>[] = [];
    for (let i = 0; i < 9; i += 1) {
      removals.push(control.groupCommit.until(within()).remove(`/${i}`));
      if (i < 4) await new Promise(setImmediate); // a turn of the event loop, in which connections flush
    }
    await control.stop();
    await Promise.all(removals);
    expect(await names(other)).toEqual([]);
  });
});

describe('without an answer', () => {
  it('all of a transaction learn that nobody knows', async () => {
    await using opened = await open(2);
    const { control } = opened;
    const lost = zookeeper.proxy.loseReply(OPCODE.multi);
    const zk = control.groupCommit.until(within());
    const errors = await Promise.all([rejection(zk.remove('/0')), rejection(zk.remove('/1'))]);
    await lost;
    expect(errors).toMatchObject([OUTCOME_UNKNOWN, OUTCOME_UNKNOWN]);
  });

  it('each ends at its own deadline, in flight or not, and what was not sent never is', async () => {
    await using opened = await open(4);
    const { control, other } = opened;
    zookeeper.proxy.pause('toZooKeeper');
    const early = rejection(control.groupCommit.until(within(scaled(300))).remove('/0'));
    const late = control.groupCommit.until(within()).remove('/1');
    await new Promise(setImmediate);
    void late.catch(() => undefined);
    await new Promise(setImmediate);
    const third = rejection(control.groupCommit.until(within(scaled(300))).remove('/2'));
    await new Promise(setImmediate);
    const unsent = rejection(control.groupCommit.until(within(scaled(300))).remove('/3'));
    expect(await early).toMatchObject(OUTCOME_UNKNOWN);
    expect(await third).toMatchObject(OUTCOME_UNKNOWN);
    expect(await unsent).toMatchObject(NOTHING_SENT);
    zookeeper.proxy.resume();
    await late;
    await control.sync();
    expect(await names(other)).toEqual(['3']);
  });

  it('nothing goes out when the connection is back for who has gone meanwhile', async () => {
    await using opened = await open(2);
    const { control, other } = opened;
    zookeeper.proxy.refuse();
    zookeeper.proxy.cut();
    await eventually('it has noticed', () => !control.connected);
    const requester = { gone: false };
    const left = rejection(control.groupCommit.until(within(), requester).remove('/0'));
    const stays = control.groupCommit.until(within()).remove('/1');
    requester.gone = true;
    zookeeper.proxy.accept();
    expect(await left).toMatchObject(CLIENT_GONE);
    await stays;
    expect(await names(other)).toEqual(['0']);
  });

  it('nothing is said to be sent that waited for a connection in vain', async () => {
    await using opened = await open(1);
    const { control } = opened;
    zookeeper.proxy.refuse();
    zookeeper.proxy.cut();
    await eventually('it has noticed', () => !control.connected);
    expect(await rejection(control.groupCommit.until(within(scaled(300))).remove('/0'))).toMatchObject(NOTHING_SENT);
    zookeeper.proxy.accept();
    await control.whenConnected(within());
    expect(await names(control)).toEqual(['0']);
  });
});
