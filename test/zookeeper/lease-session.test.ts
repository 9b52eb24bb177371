/** The session of a lease against a real server: who keeps it alive, who may take it over, and when it is gone. */
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseExpiredError } from '../../src/errors.js';
import { wasRefused, type LeaseSession } from '../../src/zookeeper/lease-session.js';
import { eventually } from '../support/eventually.js';
import { Noise } from '../support/noise.js';
import { freshRoot, sharedZooKeeper, startEnsemble, startZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import {
  NOTHING_SENT,
  OUTCOME_UNKNOWN,
  attachLease,
  controlIn,
  openLease,
  rejection,
  within,
} from '../support/zookeeper/sessions.js';

const SHORTEST_MS = 2 * timing.tickMs;
const SHORT_MS = 2_000;
/** An expired session is noticed at the next tick after its end; the rest is for a server that stands still. */
const EXPIRED_BY_MS = SHORT_MS + 2 * timing.tickMs + 1_500;

interface Place extends AsyncDisposable {
  root: string;
  connectString: string;
  exists(path: string): Promise<boolean>;
}

/** A root of its own on the shared server, and somebody else's eyes on it. */
async function place(): Promise<Place> {
  const root = freshRoot();
  const control = await controlIn(sharedZooKeeper(), root);
  return {
    root,
    connectString: sharedZooKeeper() + root,
    exists: async (path) => (await control.exists(path)) !== undefined,
    [Symbol.asyncDispose]: () => control.stop(),
  };
}

describe('a lease session', () => {
  it('is told the timeout that the ensemble grants, which is not always what was asked for', async () => {
    await using zookeeper = await startZooKeeper({ config: { maxSessionTimeout: '5000' } });
    for (const [asked, granted] of [
      [1, SHORTEST_MS],
      [1_000, 1_000],
      [60_000, 5_000],
    ] as const) {
      const lease = await openLease(zookeeper.connectString, { timeoutMs: asked });
      expect(lease.timeoutMs).toBe(granted);
      expect(lease.sessionId).toBe(lease.identity.id.readBigInt64BE());
      lease.detach();
    }
  });

  it('that is detached keeps what it owns, and can be attached to again', async () => {
    await using here = await place();
    const lease = await openLease(here.connectString);
    await lease.create('/mine', undefined, { mode: 'ephemeral' });
    const { identity } = lease;
    lease.detach();
    expect(lease.ended).toBe(true);
    const again = await attachLease(here.connectString, identity);
    expect(again.sessionId).toBe(lease.sessionId);
    expect(await here.exists('/mine')).toBe(true);
    expect(await again.getEphemerals()).toEqual(['/mine']);
    await again.close();
  });

  it('that is closed frees what it owns at once, and is expired from then on', async () => {
    await using here = await place();
    const lease = await openLease(here.connectString);
    await lease.create('/mine', undefined, { mode: 'ephemeral' });
    const { identity } = lease;
    let ended = 0;
    lease.onEnded(() => (ended += 1));
    await Promise.all([lease.close(), lease.close()]);
    expect(await here.exists('/mine')).toBe(false);
    expect(ended).toBe(1);
    expect(await rejection(attachLease(here.connectString, identity))).toBeInstanceOf(LeaseExpiredError);
  });

  it('that is attached elsewhere through the same server is dropped here, and does not fight back', async () => {
    await using here = await place();
    const first = await openLease(here.connectString);
    await first.create('/mine', undefined, { mode: 'ephemeral' });
    const second = await attachLease(here.connectString, first.identity);
    await eventually('the first is dropped', () => first.ended);
    expect(await rejection(first.sync())).toMatchObject(NOTHING_SENT);
    await second.setData('/mine', Buffer.from('still'));
    await wait(200); // a reconnect would have thrown the second out by now
    expect(second.ended).toBe(false);
    await second.sync();
    await second.close();
  });

  it(
    'that has moved to another server of the ensemble does nothing any more through the one it left',
    async () => {
      await using ensemble = await startEnsemble();
      const [one, two] = ensemble.nodes.map(({ connectString }) => connectString) as [string, string];
      const first = await openLease(one);
      await first.create('/mine', undefined, { mode: 'ephemeral' });
      const second = await attachLease(two, first.identity);
      await second.sync();
      // The server left behind hangs up in place of an answer: honest is "may be done", and nothing was.
      expect(await rejection(first.setData('/mine', Buffer.from('from the past')))).toMatchObject(OUTCOME_UNKNOWN);
      expect(first.ended).toBe(true);
      expect((await second.getData('/mine')).data).toHaveLength(0);
      await second.sync(); // and the session lives on
      await second.close();
      // A server that hears of the end in that very moment hangs up, which says nothing about the session.
      await eventually('it has ended at the other server too', async () => {
        return (await rejection(attachLease(one, first.identity))) instanceof LeaseExpiredError;
      });
    },
    timing.processMs,
  );

  it('expires although it is attached, because nothing here keeps it alive', async () => {
    await using here = await place();
    const lease = await openLease(here.connectString, { timeoutMs: SHORT_MS });
    await lease.create('/mine', undefined, { mode: 'ephemeral' });
    const openedAt = performance.now();
    using noise = new Noise();
    await eventually('it is gone', async () => !(await here.exists('/mine')));
    expect(performance.now() - openedAt).toBeGreaterThan(SHORT_MS * 0.9);
    expect(performance.now() - openedAt - noise.ms).toBeLessThan(EXPIRED_BY_MS);
    await eventually('the server drops it', () => lease.ended);
    expect(await rejection(attachLease(here.connectString, lease.identity))).toBeInstanceOf(LeaseExpiredError);
  });

  it('lives as long as requests come, also over one connection each', async () => {
    await using here = await place();
    // Long enough that a machine which stands still for a moment does not end it.
    const timeoutMs = 2 * SHORT_MS;
    let lease: LeaseSession = await openLease(here.connectString, { timeoutMs });
    await lease.create('/mine', undefined, { mode: 'ephemeral' });
    for (let i = 0; i < 4; i += 1) {
      await wait(timeoutMs / 2);
      if (i % 2 === 0) {
        await lease.sync();
      } else {
        lease.detach();
        lease = await attachLease(here.connectString, lease.identity, { timeoutMs });
      }
    }
    expect(await here.exists('/mine')).toBe(true);
    await lease.close();
  });

  it('with a wrong password, or one that never was, is expired to whoever asks', async () => {
    const lease = await openLease(sharedZooKeeper());
    const { id, password } = lease.identity;
    const wrong = Buffer.from(password.map((byte) => byte ^ 1));
    expect(await rejection(attachLease(sharedZooKeeper(), { id, password: wrong }))).toBeInstanceOf(LeaseExpiredError);
    const never = Buffer.from('00ff00ff00ff00ff', 'hex');
    expect(await rejection(attachLease(sharedZooKeeper(), { id: never, password }))).toBeInstanceOf(LeaseExpiredError);
    // The server drops the attached connection before it looks at the password; the session itself is not harmed.
    const again = await attachLease(sharedZooKeeper(), lease.identity);
    await again.close();
  });

  it('closed over a lost connection says that it may live on', async () => {
    await using zookeeper = await startZooKeeper({ proxied: true });
    const lease = await openLease(zookeeper.connectString);
    const lost = zookeeper.proxy.loseRequest(-11);
    const closing = rejection(lease.close());
    await lost;
    expect(await closing).toMatchObject({ code: 'outcome-unknown' });
    const again = await attachLease(zookeeper.connectString, lease.identity);
    await again.close();
  });

  it('is not opened beyond the connection limit of the server, and that is recognised', async () => {
    await using zookeeper = await startZooKeeper({ config: { maxClientCnxns: '3' } });
    const open = await Promise.all([1, 2, 3].map(() => openLease(zookeeper.connectString, { timeoutMs: 60_000 })));
    const refused = await rejection(openLease(zookeeper.connectString));
    expect(refused).toMatchObject(NOTHING_SENT);
    for (let i = 0; i < 30; i += 1) {
      // It shows as an end, or as an error while writing or even while connecting.
      expect(wasRefused(await rejection(openLease(zookeeper.connectString)))).toBe(true);
    }
    open[0]?.detach();
    const lease = await eventually('there is room again', () => openLease(zookeeper.connectString));
    for (const each of [...open.slice(1), lease]) await each.close();
  });

  it('does not wait for a server that stands still beyond its deadline', async () => {
    await using zookeeper = await startZooKeeper();
    const lease = await openLease(zookeeper.connectString);
    zookeeper.pause();
    const startedAt = performance.now();
    using noise = new Noise();
    const results = await Promise.all([
      rejection(attachLease(zookeeper.connectString, lease.identity, { deadline: within(300) })),
      rejection(lease.sync('/', within(300))),
    ]);
    expect(performance.now() - startedAt - noise.ms).toBeLessThan(600);
    for (const error of results) expect(error).toMatchObject(NOTHING_SENT);
    expect(wasRefused(results[0])).toBe(false);
    await eventually('the dead connection is given up', () => lease.ended);
    zookeeper.resume();
  });
});
