/**
 * Apache Curator: which of its recipes play together with ours, on both sides; and which do not.
 * docs/interoperability.md says so.
 */
import { describe, expect, test } from 'vitest';
import { Layout } from '../../src/leases/layout.js';
import { leave, untilMembers } from '../recipes/double-barrier/client.js';
import { campaign, electionOf, speak } from '../recipes/election/client.js';
import { groupOf, join } from '../recipes/group/client.js';
import type { LeaseHandle, Reply } from '../support/http/client.js';
import { throughout } from '../support/eventually.js';
import { expireSession, type Replica } from '../support/start-gateway.js';
import { Awaited, soonSo } from './peer.js';
import {
  describeLock,
  DOOMED_MS,
  lease,
  linePath,
  SCENE_MS,
  enterTogether,
  sharedScene,
  testBarrier,
  startPeer,
  TTL_MS,
  untilContenders,
} from './scene.js';

const scene = sharedScene('curator');

describeLock('InterProcessMutex in the line of a lock', scene, 'curator', (peer, path) => peer.make('mutex', path));

test(
  "a mutex does not wait for kazoo's Lock, which waits for it: the two are not to be mixed in a line of ours",
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const path = linePath(pair, 'lock', 'three');
    await using kazoo = await startPeer('kazoo');
    const [theirs, curators] = [await kazoo.make('lock', path, '-lock-'), await peer.make('mutex', path)];
    await theirs.does('acquire');
    expect(await curators.says('try', 5_000)).toBe('true'); // although kazoo holds
    await theirs.does('release');
    expect(await theirs.says('try', 0)).toBe('False');
    await curators.does('release');
  },
);

test(
  'a Revoker asks our holder to let go, and we ask a revocable InterProcessMutex',
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const mine = await lease(pair);
    const { holdId } = await a.hold('asked', mine);
    const directory = linePath(pair, 'lock', 'asked');
    const { children } = await a.gateway.context.control.getChildren(directory);
    await (await peer.make('revoker', `${directory}/${children[0]}`)).does('revoke');
    // Who only heartbeats is told after the next round of housekeeping; who looks at the lease, at once.
    expect((await a.showLease(mine)).status).toBe(200);
    expect((await b.heartbeat(mine)).body).toMatchObject({ revocations: [{ name: 'asked', holdId }] });
    expect((await a.release('asked', mine, { holdId })).status).toBe(204);
    const theirs = await peer.make('mutex', directory);
    await theirs.does('acquire');
    expect((await b.call('POST', '/v1/locks/asked/revoke', { body: { graceMs: 0 } })).status).toBeLessThan(300);
    await soonSo('theirs is told', async () => (await theirs.says('revocations')) === '1');
    await theirs.does('release');
  },
);

describe('InterProcessReadWriteLock in the line of a read-write lock', () => {
  const ask = (replica: Replica, what: string, name: string, handle: LeaseHandle, mode?: string): Promise<Reply> =>
    replica.call('POST', `/v1/rwlocks/${name}/${what}`, {
      body: mode === undefined ? {} : { mode, waitMs: TTL_MS },
      leaseToken: handle.leaseToken,
    });

  test(
    'readers share, a writer excludes, and all are served in the order of arrival',
    { timeout: SCENE_MS },
    async () => {
      const { pair, peer } = scene;
      const { a, b } = pair;
      const path = linePath(pair, 'rwlock', 'book');
      const [r1, w1, r3] = [await lease(pair), await lease(pair), await lease(pair)];
      const [r2, w2] = [await peer.make('rw', path), await peer.make('rw', path)];
      expect((await ask(a, 'acquire', 'book', r1, 'read')).status).toBe(200);
      await r2.does('read'); // beside ours
      const ourWriter = new Awaited(ask(b, 'acquire', 'book', w1, 'write'));
      await untilContenders(a, 'rwlocks', 'book', 3);
      const theirWriter = new Awaited(w2.does('write'));
      await untilContenders(a, 'rwlocks', 'book', 4);
      const lastReader = new Awaited(ask(a, 'acquire', 'book', r3, 'read'));
      await untilContenders(b, 'rwlocks', 'book', 5);
      await ask(b, 'release', 'book', r1);
      await throughout('our writer waits for their reader', () => !ourWriter.done);
      await r2.does('release-read');
      expect((await ourWriter.value).status).toBe(200);
      await throughout('their writer waits for ours', () => !theirWriter.done && !lastReader.done);
      await ask(a, 'release', 'book', w1);
      await theirWriter.value;
      await throughout('our reader waits for their writer', () => !lastReader.done);
      await w2.does('release-write');
      expect((await lastReader.value).status).toBe(200);
      await r2.does('read'); // beside ours again
      await r2.does('release-read');
      await ask(a, 'release', 'book', r3);
    },
  );

  test(
    'their writer that reads as well lets our readers in when it stops writing, and our writers when it stops reading',
    { timeout: SCENE_MS },
    async () => {
      const { pair, peer } = scene;
      const { a, b } = pair;
      const theirs = await peer.make('rw', linePath(pair, 'rwlock', 'downgraded'));
      const [reader, writer] = [await lease(pair), await lease(pair)];
      await theirs.does('write');
      await theirs.does('read');
      const reading = new Awaited(ask(a, 'acquire', 'downgraded', reader, 'read'));
      await untilContenders(b, 'rwlocks', 'downgraded', 3);
      const writing = new Awaited(ask(b, 'acquire', 'downgraded', writer, 'write'));
      await untilContenders(a, 'rwlocks', 'downgraded', 4);
      await throughout('all wait', () => !reading.done && !writing.done);
      await theirs.does('release-write');
      expect((await reading.value).status).toBe(200);
      await ask(a, 'release', 'downgraded', reader);
      await throughout('our writer waits', () => !writing.done);
      await theirs.does('release-read');
      expect((await writing.value).status).toBe(200);
      await ask(b, 'release', 'downgraded', writer);
    },
  );

  test('a holder that dies makes room for the next one, on either side', { timeout: SCENE_MS }, async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = linePath(pair, 'rwlock', 'dies');
    await using doomed = await startPeer('curator', DOOMED_MS);
    await (await doomed.make('rw', path)).does('write');
    const mine = await lease(pair);
    const ours = new Awaited(ask(a, 'acquire', 'dies', mine, 'write'));
    await untilContenders(b, 'rwlocks', 'dies', 2);
    const theirs = await peer.make('rw', path);
    const reading = new Awaited(theirs.does('read'));
    await untilContenders(b, 'rwlocks', 'dies', 3);
    await doomed.kill();
    expect((await ours.value).status).toBe(200);
    expect(reading.done).toBe(false);
    await expireSession(b, mine.leaseId);
    await reading.value;
    await theirs.does('release-read');
  });
});

describe('LeaderLatch in an election', () => {
  const stand = (replica: Replica, name: string, count: number): Promise<unknown> =>
    soonSo(`${count} stand`, async () => (await electionOf(replica, name)).candidateCount === count);

  test(
    'one leads at a time, handed over either way; ids are seen on both sides (T14)',
    { timeout: SCENE_MS },
    async () => {
      const { pair, peer } = scene;
      const { a, b } = pair;
      const path = linePath(pair, 'election', 'crown');
      const [theirs, later] = [await peer.make('latch', path, 'theirs'), await peer.make('latch', path, 'later')];
      const mine = await lease(pair);
      await theirs.does('start');
      await theirs.does('await');
      const running = new Awaited(campaign(a, 'crown', mine, { value: 'ours', waitMs: TTL_MS }));
      await stand(b, 'crown', 2);
      expect((await electionOf(b, 'crown')).leader).toMatchObject({ value: 'theirs', external: true });
      await later.does('start');
      await stand(b, 'crown', 3);
      await throughout('we do not lead', () => !running.done);
      await theirs.does('close');
      expect((await running.value).status).toBe(200);
      // Written to while a latch stands behind it: when it is elected, and then by its leader.
      expect((await speak(a, 'crown', 'proclaim', mine, { value: 'ours, too' })).status).toBeLessThan(300);
      expect((await speak(b, 'crown', 'acknowledge', mine)).status).toBeLessThan(300);
      await throughout('they do not lead', async () => (await later.says('leads')) === 'false');
      // For Curator the id is all of the data: our value is its first line, and our own record follows. Our tail has
      // the first value.
      expect((await later.says('leader'))?.split('\\n')[0]).toBe('ours, too');
      const ids = (await later.does('participants')).map((id) => id.split('\\n')[0]);
      expect(ids.sort()).toEqual(['later', 'ours', 'ours, too']);
      expect((await speak(b, 'crown', 'resign', mine)).status).toBe(204);
      await later.does('await');
      expect((await electionOf(a, 'crown')).leader).toMatchObject({ value: 'later', external: true });
      await later.does('close');
    },
  );

  test('a leader that dies is followed by the next one, on either side', { timeout: SCENE_MS }, async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = linePath(pair, 'election', 'dies');
    await using doomed = await startPeer('curator', DOOMED_MS);
    const [dying, theirs] = [await doomed.make('latch', path, 'dying'), await peer.make('latch', path, 'theirs')];
    await dying.does('start');
    await dying.does('await');
    const mine = await lease(pair);
    const running = new Awaited(campaign(a, 'dies', mine, { waitMs: TTL_MS }));
    await stand(b, 'dies', 2);
    await theirs.does('start');
    await stand(b, 'dies', 3);
    await doomed.kill();
    expect((await running.value).status).toBe(200);
    expect(await theirs.says('leads')).toBe('false');
    await expireSession(b, mine.leaseId);
    await theirs.does('await');
    await theirs.does('close');
  });
});

testBarrier('DistributedBarrier', scene);

test(
  'DistributedDoubleBarrier: all enter together, and all leave together, whoever completes the round',
  { timeout: SCENE_MS },
  async () => {
    const { pair } = scene;
    const { a, b } = pair;
    for (const theirsFirst of [true, false]) {
      const name = theirsFirst ? 'we-complete' : 'they-complete';
      const { one, two, theirs } = await enterTogether(scene, name, theirsFirst);
      const leaving = [new Awaited<unknown>(leave(a, name, one, { waitMs: TTL_MS }))];
      await throughout('nobody has left', () => leaving.every(({ done }) => !done), { forMs: 100 });
      leaving.push(new Awaited<unknown>(theirs.does('leave')));
      await throughout('nobody has left', () => leaving.every(({ done }) => !done), { forMs: 100 });
      leaving.push(new Awaited<unknown>(leave(b, name, two, { waitMs: TTL_MS })));
      await Promise.all(leaving.map(({ value }) => value));
      await untilMembers(b, name, 0);
    }
  },
);

test(
  'GroupMember: members of both are seen by both, with their values, and go when they die',
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = new Layout(pair.root).group('default', 'crew');
    await using doomed = await startPeer('curator', DOOMED_MS);
    const [theirs, dying] = [
      await peer.make('group', path, 'theirs', 'host:1'),
      await doomed.make('group', path, 'dying', 'host:2'),
    ];
    await Promise.all([theirs.does('join'), dying.does('join')]);
    const mine = await lease(pair);
    expect((await join(a, 'crew', 'ours', mine, { value: 'host:3' })).status).toBe(201);
    await soonSo('we see all', async () => {
      const { members } = await groupOf(b, 'crew');
      return (
        members
          .map(({ member, value, external }) => `${member}=${String(value)} ${external}`)
          .sort()
          .join() === 'dying=host:2 true,ours=host:3 false,theirs=host:1 true'
      );
    });
    await soonSo('they see all', async () => (await theirs.does('members')).length === 3);
    // For Curator the payload is all of the data: our value is in our record.
    const record = (await theirs.does('members')).find((member) => member.startsWith('ours='))?.slice('ours='.length);
    expect(JSON.parse(record ?? '')).toMatchObject({ value: 'host:3', leaseId: mine.leaseId });
    await doomed.kill();
    await soonSo('we see it go', async () => (await groupOf(a, 'crew')).memberCount === 2);
    await soonSo('they see it go', async () => (await theirs.does('members')).length === 2);
    await expireSession(b, mine.leaseId);
    await soonSo('they see ours go', async () => (await theirs.does('members')).length === 1);
    await theirs.does('leave');
  },
);

test(
  'InterProcessSemaphoreV2 does not see our permits, nor we its: not to be mixed under one name',
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const { a } = pair;
    const mine = await lease(pair);
    const body = { limit: 1 };
    expect((await a.call('POST', '/v1/semaphores/pool/acquire', { body, leaseToken: mine.leaseToken })).status).toBe(
      200,
    );
    const theirs = await peer.make('semaphore', linePath(pair, 'semaphore', 'pool'), 1);
    expect(await theirs.says('try', 1_000)).toBe('true');
    await theirs.does('release');
  },
);
