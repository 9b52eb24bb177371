/** What a lease's session knows of the one node that it watches, without asking: as new as a read behind a `sync`. */
import { describe, expect, it } from 'vitest';
import { LeaseSession } from '../../src/zookeeper/lease-session.js';
import { eventually } from '../support/eventually.js';
import { rounds } from '../support/scene.js';
import { freshRoot, sharedZooKeeper, startEnsemble } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import {
  attachLease,
  controlIn,
  ensembleOf,
  openLease,
  within,
  type TestControl,
} from '../support/zookeeper/sessions.js';

/** As a heartbeat asks. */
async function isAbsent(lease: LeaseSession, path: string): Promise<boolean> {
  const synced = lease.sync('/', within());
  const [, absent] = await Promise.all([synced, lease.isAbsent(path, synced, within())]);
  return absent;
}

describe('the absence of a node', () => {
  it('is asked for once, until the node is created, and again when that has gone', async () => {
    const root = freshRoot();
    await using control = await controlIn(sharedZooKeeper(), root);
    const ensemble = ensembleOf(sharedZooKeeper() + root);
    const lease = await LeaseSession.open(ensemble, { timeoutMs: 4_000, affinity: 0, deadline: within() });
    const asked = (): number => ensemble.observer.requests.filter((operation) => operation === 'exists').length;
    for (let i = 0; i < 3; i += 1) expect(await isAbsent(lease, '/news')).toBe(true);
    expect(asked()).toBe(1);
    await control.create('/news');
    for (let i = 0; i < 2; i += 1) expect(await isAbsent(lease, '/news')).toBe(false);
    expect(asked()).toBe(3);
    await control.delete('/news');
    // The event of that may come while it is being asked for: then once more.
    for (let i = 0; i < 2; i += 1) expect(await isAbsent(lease, '/news')).toBe(true);
    const before = asked();
    expect(await isAbsent(lease, '/news')).toBe(true);
    expect(asked()).toBe(before);
    await lease.close();
  });

  it('is known to views of the session that write for a request, as new as to itself', async () => {
    const root = freshRoot();
    await using control = await controlIn(sharedZooKeeper(), root);
    const lease = await openLease(sharedZooKeeper() + root);
    const view = lease.writingFor({ gone: false });
    expect(await isAbsent(view, '/news')).toBe(true);
    await control.create('/news');
    expect(await isAbsent(view, '/news')).toBe(false);
    await lease.close();
  });

  it('does not outlive its connection', async () => {
    const root = freshRoot();
    await using control = await controlIn(sharedZooKeeper(), root);
    const first = await openLease(sharedZooKeeper() + root);
    expect(await isAbsent(first, '/news')).toBe(true);
    first.detach();
    await control.create('/news');
    const second = await attachLease(sharedZooKeeper() + root, first.identity);
    expect(await isAbsent(second, '/news')).toBe(false);
    await second.close();
  });

  it(
    'is never claimed once the server has acknowledged the creation, or shown the node, whichever server it is',
    async () => {
      await using ensemble = await startEnsemble();
      const root = freshRoot();
      const servers = ensemble.nodes.map(({ connectString }) => connectString);
      const controls = await Promise.all(servers.map((server) => controlIn(server, root)));
      const sessions = await Promise.all(servers.map((server) => openLease(server + root)));
      for (let round = 0; round < rounds(21); round += 1) {
        const control = controls[round % servers.length] as TestControl;
        const lease = sessions[round % servers.length] as LeaseSession;
        // Twice: then it is known.
        for (let i = 0; i < 2; i += 1)
          await eventually('nobody finds it', async () => {
            const absent = await Promise.all(sessions.map((each) => isAbsent(each, '/news')));
            return absent.every(Boolean);
          });
        const creating = control.create('/news');
        const during = sessions.map(async (each) => {
          const [shown, absent] = await Promise.all([each.exists('/news'), isAbsent(each, '/news')]);
          expect(shown !== undefined && absent).toBe(false);
        });
        await creating;
        expect(await isAbsent(lease, '/news')).toBe(false);
        await Promise.all(during);
        await control.delete('/news');
      }
      for (const lease of sessions) await lease.close();
      for (const control of controls) await control.stop();
    },
    timing.processMs,
  );
});
