/**
 * The hub of watches: one watch per node at the server, however many wait; set again after a reconnect; removed when
 * nobody waits.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import { allWatched, type WatchEvent } from '../../src/zookeeper/watch.js';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { Reader } from '../../src/zookeeper/connection/wire.js';
import { eventually, passed, throughout } from '../support/eventually.js';
import { FakeServer, notification } from '../support/zookeeper/fake-server.js';
import { fourLetterWord } from '../../scripts/lib/zookeeper.mjs';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { watchedPaths } from '../support/zookeeper/instruments.js';
import { TestControl, controlIn, rejection, within } from '../support/zookeeper/sessions.js';

const noop = (): void => undefined;

describe('a watch', () => {
  let root: string;
  beforeEach(() => {
    root = freshRoot();
  });

  it('is called once, for the event that happened, with the zxid that caused it', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n');
    const events: WatchEvent[] = [];
    const data = await control.watches.getData('/n', (event) => events.push(event));
    expect(data.value?.stat.version).toBe(0);
    const stat = await control.setData('/n', Buffer.from('1'));
    await control.setData('/n', Buffer.from('2'));
    await control.sync();
    const told = (await serverVersion()) >= 3.9; // ZOOKEEPER-4655
    expect(events).toEqual([{ type: 'changed', path: `${root}/n`, zxid: told ? stat.mzxid : -1 }]);
    expect(control.watches.size).toBe(0);
  });

  it('on a node that is missing stays only where that was asked for', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    const events: WatchEvent[] = [];
    expect(await control.watches.getData('/n', noop)).toMatchObject({ value: undefined, watch: undefined });
    expect(await control.watches.getChildren('/n', noop)).toMatchObject({ value: undefined, watch: undefined });
    expect(control.watches.size).toBe(0);
    expect((await control.watches.exists('/n', (event) => events.push(event))).value).toBeUndefined();
    expect(control.watches.size).toBe(1);
    await control.create('/n');
    await control.sync();
    expect(events.map(({ type }) => type)).toEqual(['created']);
    expect(await watchedIn(control)).toEqual([]);
  });

  it('for children and one for data of the same node are both called when it goes', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n');
    const events: string[] = [];
    await control.watches.getData('/n', ({ type }) => events.push(`data ${type}`));
    await control.watches.getChildren('/n', ({ type }) => events.push(`children ${type}`));
    await control.create('/n/child');
    await control.watches.getChildren('/n', ({ type }) => events.push(`children ${type}`));
    await control.delete('/n/child');
    await control.watches.getChildren('/n', ({ type }) => events.push(`children ${type}`));
    await control.delete('/n');
    await control.sync();
    expect(events.sort()).toEqual(['children children', 'children children', 'children deleted', 'data deleted']);
  });

  it('is one at the server however many wait, and is removed with the last of them (defect 21)', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n');
    const waiting = await Promise.all(Array.from({ length: 50 }, () => control.watches.getData('/n', noop)));
    expect(control.watches.size).toBe(1);
    expect(await watchedIn(control)).toEqual(['/n']);
    for (const { watch } of waiting.slice(1)) watch?.cancel();
    expect(await watchedIn(control)).toEqual(['/n']);
    waiting[0]?.watch?.cancel();
    waiting[0]?.watch?.cancel();
    expect(await watchedIn(control)).toEqual([]);
    expect(control.observer.watchCount).toBe(0);
  });

  it('that is cancelled and set again at once is not lost (defect 21)', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n');
    for (let i = 0; i < 20; i += 1) {
      const { watch } = await control.watches.getData('/n', noop);
      watch?.cancel();
    }
    let called = 0;
    await control.watches.getData('/n', () => (called += 1));
    await control.setData('/n', Buffer.from('x'));
    await control.sync();
    expect(called).toBe(1);
  });

  it('is called although a listener beside it throws', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n');
    let called = 0;
    await control.watches.getData('/n', () => {
      throw new Error('a bug in a listener');
    });
    await control.watches.getData('/n', () => (called += 1));
    await control.delete('/n');
    await control.sync();
    expect(called).toBe(1);
    expect(control.observer.faults.map(String)).toEqual(['Error: a bug in a listener']);
  });

  it('whose request fails is not kept', async () => {
    await using server = await FakeServer.start({
      onRequest: (request) => request.path === '/no' && (request.reply({ error: -102 }), true),
    });
    await using control = await TestControl.open(server.connectString);
    expect(await rejection(control.watches.getData('/no', noop))).toMatchObject({ reason: 'NO_AUTH' });
    expect(await rejection(control.watches.persistent('/gone', 'persistent', noop, performance.now()))).toMatchObject({
      code: 'zookeeper-unavailable',
    });
    expect(control.watches.size).toBe(0);
  });

  it('tells nobody of events that nobody waits for', async () => {
    await using server = await FakeServer.start();
    await using control = await TestControl.open(server.connectString);
    server.connection.send(notification(3, '/unknown'), notification(-2, '/removed'), notification(99, '/strange'));
    await control.sync('/', within());
    expect(control.observer.faults).toEqual([]);
    expect(server.connections).toHaveLength(1);
  });
});

describe('several watches', () => {
  it('fail when all of them have an answer, so that none is set behind the failure', async () => {
    let answered = false;
    const late = passed(50).then(() => (answered = true));
    await rejection(allWatched<unknown>([Promise.reject(new Error('no')), late]));
    expect(answered).toBe(true);
    expect(await allWatched([Promise.resolve(1), Promise.resolve(2)])).toEqual([1, 2]);
  });
});

describe('a persistent watch', () => {
  it('is called for every event on its node, and below it when it is recursive, until it is cancelled', async () => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await control.create('/n');
    const own: string[] = [];
    const below: string[] = [];
    const relative = ({ type, path }: WatchEvent): string => `${type} ${path.slice(path.indexOf('/', 1))}`;
    const watch = await control.watches.persistent('/n', 'persistent', (event) => own.push(relative(event)));
    const deep = await control.watches.persistent('/', 'persistent-recursive', (event) => below.push(relative(event)));
    await control.setData('/n', Buffer.from('1'));
    await control.setData('/n', Buffer.from('2'));
    await control.create('/n/a');
    await control.sync();
    expect(own).toEqual(['changed /n', 'changed /n', 'children /n']);
    expect(below).toEqual(
      ['changed /n', 'changed /n', 'created /n/a', 'children /n'].filter((each) => below.includes(each)),
    );
    expect(below).toContain('created /n/a');
    watch.cancel();
    deep.cancel();
    await control.setData('/n', Buffer.from('3'));
    await control.sync();
    expect(own).toHaveLength(3);
    expect(await watchedIn(control)).toEqual([]);
  });

  it('that is cancelled takes another watch of its node with it at the server, but not in silence', async () => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await control.create('/n');
    const events: string[] = [];
    let again: Promise<unknown> | undefined;
    const persistent = await control.watches.persistent('/n', 'persistent', noop);
    await control.watches.getData('/n', ({ type }) => {
      events.push(type);
      again = control.watches.getData('/n', (event) => events.push(event.type));
    });
    persistent.cancel();
    await again;
    await control.setData('/n', Buffer.from('x'));
    await control.sync();
    expect(events).toEqual(['reset', 'changed']);
  });

  it('that is cancelled takes one with it that is on its way, but not in silence', async () => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await control.create('/n');
    const events: string[] = [];
    const persistent = await control.watches.persistent('/n', 'persistent', noop);
    const reading = control.watches.getData('/n', ({ type }) => events.push(type));
    persistent.cancel();
    await reading;
    await control.setData('/n', Buffer.from('x'));
    await control.sync();
    expect(events).toEqual(['reset']);
  });

  it('survives that another watch of its node is cancelled', async () => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await control.create('/n');
    const events: string[] = [];
    await control.watches.persistent('/n', 'persistent', ({ type }) => events.push(type));
    const { watch } = await control.watches.getData('/n', noop);
    watch?.cancel();
    await control.setData('/n', Buffer.from('x'));
    await control.setData('/n', Buffer.from('y'));
    await eventually('it is called for both', () => events.length === 2);
  });
});

describe('after a reconnect', () => {
  it('all watches are set again in packets far below the limit, each once (defect 12)', async () => {
    await using server = await FakeServer.start({
      onRequest: (request) => request.path.startsWith('/missing') && (request.reply({ error: -101 }), true),
    });
    await using control = await TestControl.open(server.connectString);
    const long = 'x'.repeat(60);
    const paths = Array.from({ length: 6_000 }, (_, i) => `/${long}-${i}`);
    await Promise.all(paths.map((path) => control.watches.getData(path, noop, within())));
    await Promise.all(paths.map((path) => control.watches.getChildren(path, noop, within())));
    await Promise.all(paths.map((path) => control.watches.exists(`/missing${path}`, noop, within())));
    await control.watches.persistent('/p', 'persistent', noop);
    await control.watches.persistent('/r', 'persistent-recursive', noop);
    server.cut();
    const set = await eventually('they are set again', () => {
      const requests = server.received.filter(({ opcode }) => opcode === OPCODE.setWatches);
      const lists = requests.map(({ body }) => readSetWatches(body));
      return lists.reduce((sum, { paths: each }) => sum + each.length, 0) === 18_002 && { requests, lists };
    });
    expect(Math.max(...set.requests.map(({ body }) => body.length))).toBeLessThan(140 * 1024);
    const kinds = set.lists.flatMap(({ paths: each }) => each);
    expect(new Set(kinds).size).toBe(18_002);
    expect(kinds).toEqual(
      expect.arrayContaining(['0 ' + paths[0], `1 /missing${paths[5_999]}`, `2 ${paths[1]}`, '3 /p', '4 /r']),
    );
    expect(new Set(set.lists.map(({ zxid }) => zxid)).size).toBe(1);
    expect(set.lists[0]?.zxid).toBeGreaterThan(100);
  });

  it('persistent watches are told to read again, because what they missed is not reported', async () => {
    await using server = await FakeServer.start();
    await using control = await TestControl.open(server.connectString);
    const events: string[] = [];
    await control.watches.persistent('/p', 'persistent', ({ type }) => events.push(type));
    await throughout('nothing is reported before', () => events.length === 0, { forMs: 50 });
    server.cut();
    await eventually('they are told', () => events.length === 1);
    expect(events).toEqual(['reset']);
  });
});

/** Paths below the chroot that the server itself says this session watches. */
/** In its root. */
async function watchedIn(control: TestControl): Promise<string[]> {
  const paths = await watchedPaths(control, sharedZooKeeper());
  return paths.map((path) => path.slice(control.view.chroot.length) || '/');
}

function word(text: string): Promise<string> {
  return fourLetterWord(Number(sharedZooKeeper().split(':')[1]), text);
}

async function serverVersion(): Promise<number> {
  return Number(/version: (\d+\.\d+)/.exec(await word('srvr'))?.[1]);
}

function readSetWatches(body: Buffer): { zxid: number; paths: string[] } {
  const reader = new Reader(body);
  const zxid = reader.long();
  const paths = [0, 1, 2, 3, 4].flatMap((list) => reader.vector(() => `${list} ${reader.string()}`));
  return { zxid, paths };
}
