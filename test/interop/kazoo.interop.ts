/**
 * kazoo: what plays together with our recipes, what only when it is told of our names, and what does not.
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

/** How the names of our contenders are told to kazoo. */
const LOCKS = '-lock-';
const CANDIDATES = '-latch-';
const WRITERS = '__WRIT__';
const READERS = '__READ__';

const scene = sharedScene('kazoo');

describeLock(`Lock(extra_lock_patterns=["${LOCKS}"]) in the line of a lock`, scene, 'kazoo', (peer, path) =>
  peer.make('lock', path, LOCKS),
);

test(
  'a Lock without extra_lock_patterns is seen by us, and does not see us: it holds beside our holder',
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const [theirs, mine] = [await peer.make('lock', linePath(pair, 'lock', 'blind')), await lease(pair)];
    await theirs.does('acquire');
    const waiting = new Awaited(a.hold('blind', mine, { waitMs: TTL_MS }));
    await untilContenders(b, 'locks', 'blind', 2);
    await throughout('we wait', () => !waiting.done);
    await theirs.does('release');
    await waiting.value;
    await theirs.does('acquire'); // although we hold
    expect((await a.showLock('blind')).holders).toMatchObject([{ leaseId: mine.leaseId }]);
    await theirs.does('release');
  },
);

describe('ReadLock and WriteLock that are told of our names, in the line of a read-write lock', () => {
  const ask = (replica: Replica, what: string, name: string, handle: LeaseHandle, mode?: string): Promise<Reply> =>
    replica.call('POST', `/v1/rwlocks/${name}/${what}`, {
      body: mode === undefined ? {} : { mode, waitMs: TTL_MS },
      leaseToken: handle.leaseToken,
    });

  test('a writer excludes on both sides, and readers share', { timeout: SCENE_MS }, async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = linePath(pair, 'rwlock', 'book');
    const [reader, writer, last] = [await lease(pair), await lease(pair), await lease(pair)];
    const theirReader = await peer.make('read', path, WRITERS);
    const theirWriter = await peer.make('write', path, WRITERS, READERS);
    await theirReader.does('acquire');
    expect((await ask(a, 'acquire', 'book', reader, 'read')).status).toBe(200); // beside theirs
    const ours = new Awaited(ask(b, 'acquire', 'book', writer, 'write'));
    await untilContenders(a, 'rwlocks', 'book', 3);
    const theirs = new Awaited(theirWriter.does('acquire'));
    await untilContenders(a, 'rwlocks', 'book', 4);
    const reading = new Awaited(ask(a, 'acquire', 'book', last, 'read'));
    await untilContenders(a, 'rwlocks', 'book', 5);
    await ask(b, 'release', 'book', reader);
    await throughout('our writer waits for their reader', () => !ours.done);
    await theirReader.does('release');
    expect((await ours.value).status).toBe(200);
    await throughout('their writer waits for ours', () => !theirs.done && !reading.done);
    await ask(a, 'release', 'book', writer);
    await theirs.value;
    await throughout('our reader waits for their writer', () => !reading.done);
    await theirWriter.does('release');
    expect((await reading.value).status).toBe(200);
    await theirReader.does('acquire'); // beside ours
    await theirReader.does('release');
    await ask(a, 'release', 'book', last);
  });

  test('a holder that dies makes room for the next one, on either side', { timeout: SCENE_MS }, async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = linePath(pair, 'rwlock', 'dies');
    await using doomed = await startPeer('kazoo', DOOMED_MS);
    await (await doomed.make('write', path, WRITERS, READERS)).does('acquire');
    const mine = await lease(pair);
    const ours = new Awaited(ask(a, 'acquire', 'dies', mine, 'write'));
    await untilContenders(b, 'rwlocks', 'dies', 2);
    const theirs = await peer.make('read', path, WRITERS);
    const reading = new Awaited(theirs.does('acquire'));
    await untilContenders(b, 'rwlocks', 'dies', 3);
    await doomed.kill();
    expect((await ours.value).status).toBe(200);
    expect(reading.done).toBe(false);
    await expireSession(b, mine.leaseId);
    await reading.value;
    await theirs.does('release');
  });
});

test(
  'Election whose lock is told of our names: one leads at a time, handed over either way, also by death',
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = linePath(pair, 'election', 'crown');
    await using doomed = await startPeer('kazoo', DOOMED_MS);
    const [theirs, dying] = [
      await peer.make('election', path, 'theirs', CANDIDATES),
      await doomed.make('election', path, 'dying', CANDIDATES),
    ];
    const stand = (count: number): Promise<unknown> =>
      soonSo(`${count} stand`, async () => (await electionOf(b, 'crown')).candidateCount === count);
    const mine = await lease(pair);
    await dying.does('acquire');
    expect((await electionOf(a, 'crown')).leader).toMatchObject({ value: null, external: true });
    const ours = new Awaited(campaign(a, 'crown', mine, { value: 'ours', waitMs: TTL_MS }));
    await stand(2);
    const running = new Awaited(theirs.does('acquire'));
    await stand(3);
    await doomed.kill();
    expect((await ours.value).status).toBe(200);
    await throughout('they do not lead', () => !running.done);
    expect((await speak(b, 'crown', 'resign', mine)).status).toBe(204);
    await running.value;
    const again = new Awaited(campaign(b, 'crown', mine, { value: 'ours', waitMs: TTL_MS }));
    await stand(2);
    await theirs.does('release');
    expect((await again.value).status).toBe(200);
    const last = new Awaited(theirs.does('acquire'));
    await stand(2);
    await expireSession(b, mine.leaseId);
    await last.value;
    await theirs.does('release');
  },
);

test('an Election as it comes does not see our candidates: it leads beside ours', { timeout: SCENE_MS }, async () => {
  const { pair, peer } = scene;
  const { a } = pair;
  const mine = await lease(pair);
  expect((await campaign(a, 'blind', mine)).status).toBe(200);
  const theirs = await peer.make('election', linePath(pair, 'election', 'blind'), 'theirs');
  await theirs.does('acquire'); // although we lead
  expect((await electionOf(a, 'blind')).leader).toMatchObject({ leaseId: mine.leaseId });
  await theirs.does('release');
});

testBarrier('Barrier', scene);

test(
  'DoubleBarrier: all enter together, whoever completes the round; who leaves first ends it for all',
  { timeout: SCENE_MS },
  async () => {
    const { pair } = scene;
    const { a, b } = pair;
    for (const theirsFirst of [true, false]) {
      const name = theirsFirst ? 'we-complete' : 'they-complete';
      const { one, two, theirs } = await enterTogether(scene, name, theirsFirst);
      const ours = new Awaited(leave(a, name, one, { waitMs: TTL_MS }));
      await throughout('we have not left', () => !ours.done, { forMs: 100 });
      // kazoo removes `ready` before it leaves: ours is told that all have left, although one of us is still in.
      const leaving = new Awaited(theirs.does('leave'));
      expect((await ours.value).body).toMatchObject({ left: true });
      await leave(b, name, two, { waitMs: TTL_MS });
      await leaving.value;
      await untilMembers(b, name, 0);
    }
  },
);

test('Party and ShallowParty: we see their members; a Party sees none of ours', { timeout: SCENE_MS }, async () => {
  const { pair, peer } = scene;
  const { a, b } = pair;
  const path = new Layout(pair.root).group('default', 'crew');
  await using doomed = await startPeer('kazoo', DOOMED_MS);
  const [party, dying] = [await peer.make('party', path, 'party'), await doomed.make('shallow-party', path, 'shallow')];
  await party.does('join');
  await dying.does('join');
  const mine = await lease(pair);
  expect((await join(a, 'crew', 'ours', mine)).status).toBe(201);
  const { members } = await groupOf(b, 'crew');
  expect(
    members
      .filter(({ external }) => external)
      .map(({ value }) => value)
      .sort(),
  ).toEqual(['party', 'shallow']);
  expect(await party.does('members')).toEqual(['party']);
  expect(await dying.does('members')).toEqual(expect.arrayContaining(['ours', 'shallow']));
  await doomed.kill();
  await soonSo('we see it go', async () => (await groupOf(a, 'crew')).memberCount === 2);
  await party.does('leave');
});

test(
  'Semaphore counts our contenders, and we do not see its: not to be mixed under one name',
  { timeout: SCENE_MS },
  async () => {
    const { pair, peer } = scene;
    const { a } = pair;
    const mine = await lease(pair);
    const ask = (what: string, name: string): Promise<Reply> =>
      a.call('POST', `/v1/semaphores/${name}/${what}`, {
        body: what === 'acquire' ? { limit: 1 } : {},
        leaseToken: mine.leaseToken,
      });
    expect((await ask('acquire', 'ours')).status).toBe(200);
    const theirs = await peer.make('semaphore', linePath(pair, 'semaphore', 'ours'), 1);
    expect(await theirs.says('try', 0)).toBe('False');
    expect((await ask('release', 'ours')).status).toBe(204);
    expect(await theirs.says('try', 0)).toBe('True');
    expect((await ask('acquire', 'ours')).status).toBe(200); // although the only permit is theirs
    const first = await peer.make('semaphore', linePath(pair, 'semaphore', 'theirs'), 1);
    await first.does('acquire');
    expect((await ask('acquire', 'theirs')).body).toMatchObject({ status: 409, code: 'conflict' });
  },
);
