/** The replica's own session through faults, against a real server behind a proxy. */
import { beforeAll, afterAll, afterEach, describe, expect, it } from 'vitest';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { eventually } from '../support/eventually.js';
import { Noise } from '../support/noise.js';
import { freshRoot, startZooKeeper, type TestZooKeeper } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';
import {
  NOTHING_SENT,
  OUTCOME_UNKNOWN,
  type TestControl,
  controlIn,
  rejection,
  within,
} from '../support/zookeeper/sessions.js';

let zookeeper: TestZooKeeper;
beforeAll(async () => {
  zookeeper = await startZooKeeper({ proxied: true });
});
afterEach(() => zookeeper.proxy.heal());
afterAll(() => zookeeper.stop());

/** A session that no fault of the proxy reaches. */
function direct(root: string): Promise<TestControl> {
  return controlIn(`127.0.0.1:${zookeeper.port}`, root);
}

function proxied(root: string, sessionTimeoutMs = 4_000): Promise<TestControl> {
  return controlIn(zookeeper.connectString, root, { sessionTimeoutMs });
}

describe('when the connection is cut', () => {
  it('the session and what it owns stay, and its watches are set again', async () => {
    const root = freshRoot();
    await using other = await direct(root);
    await using control = await proxied(root);
    const session = control.sessionId;
    let newSessions = 0;
    control.onNewSession(() => (newSessions += 1));
    await control.create('/mine', undefined, { mode: 'ephemeral' });
    await other.create('/n');
    await other.create('/n/child');
    await other.create('/r');
    const events: string[] = [];
    const record =
      (name: string) =>
      ({ type }: { type: string }) =>
        void events.push(`${name} ${type}`);
    await control.watches.getData('/n', record('data'));
    await control.watches.getChildren('/n', record('children'));
    await control.watches.exists('/missing', record('exists'));
    await control.watches.persistent('/r', 'persistent-recursive', record('recursive'));
    zookeeper.proxy.cut();
    await eventually('it is back', () => control.observer.events.includes('reconnected'));
    expect(control.sessionId).toBe(session);
    expect(newSessions).toBe(0);
    expect(events).toEqual(['recursive reset']);
    expect(await control.getEphemerals()).toEqual(['/mine']);
    await other.create('/missing');
    await other.setData('/n', Buffer.from('x'));
    await other.create('/n/second');
    await other.setData('/r', Buffer.from('x'));
    await other.create('/r/below');
    await eventually('all watches work', () => events.length === 6);
    expect(events.slice(1).sort()).toEqual(
      ['children children', 'data changed', 'exists created', 'recursive changed', 'recursive created'].sort(),
    );
  });

  it('events that were missed meanwhile are delivered afterwards', async () => {
    const root = freshRoot();
    await using other = await direct(root);
    await using control = await proxied(root);
    for (const path of ['/changed', '/deleted', '/parent', '/same']) await other.create(path);
    const events: string[] = [];
    const record =
      (name: string) =>
      ({ type }: { type: string }) =>
        void events.push(`${name} ${type}`);
    for (const path of ['/changed', '/deleted', '/same']) await control.watches.getData(path, record(path));
    await control.watches.getChildren('/parent', record('/parent'));
    await control.watches.exists('/created', record('/created'));
    zookeeper.proxy.refuse();
    zookeeper.proxy.cut();
    await eventually('it is noticed', () => !control.connected);
    expect(control.disconnectedSince).toBeDefined();
    await other.setData('/changed', Buffer.from('x'));
    await other.delete('/deleted');
    await other.create('/parent/child');
    await other.create('/created');
    zookeeper.proxy.accept();
    await eventually('all are told', () => events.length === 4);
    await control.sync();
    expect(events.sort()).toEqual(
      ['/changed changed', '/created created', '/deleted deleted', '/parent children'].sort(),
    );
    expect(control.watches.size).toBe(1);
    expect(control.disconnectedSince).toBeUndefined();
  });

  it(
    '20 000 watches are set again without the connection being dropped',
    async () => {
      const root = freshRoot();
      await using other = await direct(root);
      await using control = await proxied(root, 8_000);
      const paths = Array.from({ length: 20_000 }, (_, i) => `/node-with-a-long-name-as-contenders-have-it-${i}`);
      for (let i = 0; i < paths.length; i += 2_000) {
        await other.multi(paths.slice(i, i + 2_000).map((path) => ({ type: 'create', path })));
      }
      let called = 0;
      for (let i = 0; i < paths.length; i += 2_000) {
        await Promise.all(paths.slice(i, i + 2_000).map((path) => control.watches.getData(path, () => (called += 1))));
      }
      zookeeper.proxy.cut();
      await eventually('it is back', () => control.observer.events.includes('reconnected'));
      await control.sync('/', within());
      for (let i = 0; i < paths.length; i += 2_000) {
        await other.multi(paths.slice(i, i + 2_000).map((path) => ({ type: 'delete', path })));
      }
      await eventually('all are called', () => called === paths.length);
      expect(control.observer.events.filter((event) => event === 'disconnected')).toHaveLength(1);
      expect(control.observer.faults).toEqual([]);
    },
    timing.processMs,
  );

  it('a request that was never sent fails by its deadline as "not done", one that was sent as "may be done"', async () => {
    const root = freshRoot();
    await using other = await direct(root);
    await using control = await proxied(root);
    await other.create('/n');
    const lost = zookeeper.proxy.loseReply(OPCODE.delete);
    zookeeper.proxy.refuse();
    const sent = rejection(control.delete('/n', -1, within()));
    await lost;
    expect(await sent).toMatchObject(OUTCOME_UNKNOWN);
    const startedAt = performance.now();
    expect(await rejection(control.delete('/n', -1, within(250)))).toMatchObject(NOTHING_SENT);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(150);
    const waiting = control.exists('/n', within());
    zookeeper.proxy.accept();
    expect(await waiting).toBeUndefined(); // it had been done, and what waited was answered
  });

  it('in the middle of a reply, the next connection starts clean (defect 1)', async () => {
    const root = freshRoot();
    await using control = await proxied(root);
    await control.create('/n', Buffer.alloc(10_000));
    const cut = zookeeper.proxy.cutMidFrame();
    const read = rejection(control.getData('/n'));
    await cut;
    expect(await read).toMatchObject(NOTHING_SENT);
    expect((await control.getData('/n')).data).toHaveLength(10_000);
  });
});

describe('a connection that is open but dead', () => {
  it('is noticed within the timeout, and the session goes on over another', async () => {
    const root = freshRoot();
    await using control = await proxied(root, 6_000);
    const session = control.sessionId;
    await control.create('/mine', undefined, { mode: 'ephemeral' });
    zookeeper.proxy.suspend();
    const suspendedAt = performance.now();
    using noise = new Noise();
    await eventually('it is noticed', () => !control.connected);
    expect(performance.now() - suspendedAt - noise.ms).toBeLessThan(control.sessionTimeoutMs);
    zookeeper.proxy.heal();
    zookeeper.proxy.cut();
    await control.whenConnected(within());
    expect(control.sessionId).toBe(session);
    expect(await control.exists('/mine')).toBeDefined();
  });
});

describe('while it is idle', () => {
  it('the session lives on, pings being enough, also under a flood of events (defect 4)', async () => {
    const root = freshRoot();
    await using other = await direct(root);
    await using control = await proxied(root, scaled(2_500));
    await control.create('/mine', undefined, { mode: 'ephemeral' });
    await other.create('/busy');
    let events = 0;
    await control.watches.persistent('/busy', 'persistent', () => (events += 1));
    const end = performance.now() + control.sessionTimeoutMs * 2;
    while (performance.now() < end) await other.setData('/busy', Buffer.from(String(events)));
    expect(events).toBeGreaterThan(50);
    expect(await other.exists('/mine')).toBeDefined();
    expect(control.observer.events.filter((event) => event.endsWith('connected'))).toEqual(['connected']);
  });
});
