/** How a control session ends: expired and followed by another, carried over a restart, or stopped. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually, throughout } from '../support/eventually.js';
import { freshRoot, startZooKeeper, type TestZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import { NOTHING_SENT, TestControl, controlIn, rejection, within } from '../support/zookeeper/sessions.js';

const noop = (): void => undefined;

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

describe('when the session expires', () => {
  it('another begins, what the old one owned is gone, and every listener is called with reset', async () => {
    const root = freshRoot();
    await using other = await direct(root);
    await using control = await proxied(root, 3_000);
    await control.create('/mine', undefined, { mode: 'ephemeral' });
    await other.create('/n');
    const first = control.sessionId;
    const events: string[] = [];
    await control.watches.getData('/n', ({ type }) => events.push(`data ${type}`));
    await control.watches.exists('/missing', ({ type }) => events.push(`exists ${type}`));
    await control.watches.persistent('/n', 'persistent', ({ type }) => events.push(`persistent ${type}`));
    const newSession = new Promise<void>((begins) => control.onNewSession(begins));
    zookeeper.proxy.suspend();
    await eventually('it has expired', async () => (await other.exists('/mine')) === undefined);
    zookeeper.proxy.heal();
    zookeeper.proxy.cut();
    await newSession;
    expect(control.sessionId).not.toBe(first);
    expect(events.sort()).toEqual(['data reset', 'exists reset', 'persistent reset']);
    await control.sync(); // behind the watches
    await other.setData('/n', Buffer.from('x'));
    await eventually('the persistent watch is set in the new session', () => events.includes('persistent changed'));
    expect(control.watches.size).toBe(1);
  });
});

describe('when the server restarts', () => {
  it(
    'it comes back by itself, with the session as long as the server still knows it',
    async () => {
      await using own = await startZooKeeper();
      await using control = await TestControl.open(own.connectString, { sessionTimeoutMs: timing.processMs });
      const session = control.sessionId;
      await control.create('/mine', undefined, { mode: 'ephemeral' });
      await own.kill();
      await eventually('it is noticed', () => !control.connected);
      await own.restart();
      await control.whenConnected(within());
      expect(control.sessionId).toBe(session);
      expect(await control.exists('/mine')).toBeDefined();
    },
    timing.processMs,
  );
});

describe('stop', () => {
  it('ends the session: what it owned is gone at once, not after the timeout', async () => {
    const root = freshRoot();
    await using other = await direct(root);
    const control = await proxied(root, 4_000);
    await control.create('/mine', undefined, { mode: 'ephemeral' });
    await control.watches.getData('/mine', noop);
    await control.stop();
    expect(await other.exists('/mine')).toBeUndefined();
    expect(await rejection(control.exists('/mine'))).toMatchObject(NOTHING_SENT);
    const { accepted } = zookeeper.proxy.counters;
    await throughout('it stays away', () => zookeeper.proxy.counters.accepted === accepted);
  });

  it('fails what waits for a connection, at once', async () => {
    const control = TestControl.start('127.0.0.1:1');
    const waiting = rejection(control.exists('/x', within(60_000)));
    await control.stop();
    expect(await waiting).toMatchObject(NOTHING_SENT);
  });

  it('leaves no timer, no socket and no listener behind', async () => {
    const resources = (): number =>
      process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name === 'TCPSocketWrap').length;
    const root = freshRoot();
    await (await proxied(root)).stop();
    await eventually('the proxy has closed too', () => zookeeper.proxy.openConnections === 0);
    const before = resources();
    for (let i = 0; i < 3; i += 1) {
      const control = await proxied(root);
      await control.watches.exists('/x', noop);
      zookeeper.proxy.cut();
      await control.whenConnected(within());
      await control.stop();
    }
    await eventually('all is released', () => resources() <= before);
  });
});
