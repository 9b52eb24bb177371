/**
 * What the libraries have in common: two replicas and a peer before one ZooKeeper, and the scenes of a lock, which all
 * of them play.
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Layout, type LineKind } from '../../src/leases/layout.js';
import { enter, untilMembers } from '../recipes/double-barrier/client.js';
import type { LeaseHandle } from '../support/http/client.js';
import { throughout } from '../support/eventually.js';
import { expireSession, startPair, type Pair, type Replica } from '../support/start-gateway.js';
import { sharedZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import type { LibraryName, LibraryProgram } from './libraries.js';
import { Awaited, Peer, soonSo, type Thing } from './peer.js';

export const TTL_MS = 30_000;
/** Of a session whose program is killed. */
export const DOOMED_MS = 2_000;
/** Other processes start, and stop, meanwhile. */
export const SCENE_MS = timing.processMs;

/** @throws when it could not be got */
export function programOf(library: LibraryName): LibraryProgram {
  const provided = inject('libraries')[library];
  if ('error' in provided) throw new Error(`${library} could not be got: ${provided.error}`);
  return provided;
}

export function startPeer(library: LibraryName, sessionTimeoutMs?: number): Promise<Peer> {
  return Peer.start(programOf(library), sharedZooKeeper(), sessionTimeoutMs);
}

/** Two replicas, and one program of the library, for all tests of a file. */
export function sharedScene(library: LibraryName): { pair: Pair; peer: Peer } {
  const scene = {} as { pair: Pair; peer: Peer };
  beforeAll(async () => {
    [scene.pair, scene.peer] = await Promise.all([startPair(), startPeer(library)]);
  });
  afterAll(async () => {
    await scene.peer[Symbol.asyncDispose]();
    await scene.pair[Symbol.asyncDispose]();
  });
  return scene;
}

export function linePath({ root }: Pair, kind: LineKind, name: string): string {
  return new Layout(root).line(kind, 'default', name);
}

/** How many of one line hold or wait, whoever they are. */
export async function contenders(replica: Replica, kind: 'locks' | 'rwlocks', name: string): Promise<number> {
  const { holderCount, waiterCount } = (await replica.expect(200, 'GET', `/v1/${kind}/${name}`)) as {
    holderCount: number;
    waiterCount: number;
  };
  return holderCount + waiterCount;
}

export function untilContenders(
  replica: Replica,
  kind: 'locks' | 'rwlocks',
  name: string,
  count: number,
): Promise<unknown> {
  return soonSo(`${count} stand at ${name}`, async () => (await contenders(replica, kind, name)) === count);
}

export function lease({ a }: Pair): Promise<LeaseHandle> {
  return a.createLease({ ttlMs: TTL_MS });
}

interface LockScenes {
  scene: { pair: Pair; peer: Peer };
  library: LibraryName;
  /** Gives things that `acquire` and `release`. */
  make: (peer: Peer, path: string) => Promise<Thing>;
}

/** The scenes of one line of exclusive locks, in which their contenders and ours stand. */
export function describeLock(
  title: string,
  scene: LockScenes['scene'],
  library: LibraryName,
  make: LockScenes['make'],
): void {
  const scenes = { scene, library, make };
  describe(title, () => {
    test('they hold and we wait; we hold and they wait', { timeout: SCENE_MS }, () => waitForEachOther(scenes));

    test(
      'in a mixed line everybody is served in the order of arrival, and nobody is in beside another',
      { timeout: SCENE_MS },
      () => standInOneLine(scenes),
    );

    test('a holder that dies makes room for the next one, on either side', { timeout: SCENE_MS }, () =>
      dieHolding(scenes),
    );
  });
}

async function waitForEachOther({ scene, make }: LockScenes): Promise<void> {
  const { pair, peer } = scene;
  const { a, b } = pair;
  const [mine, theirs] = [await lease(pair), await make(peer, linePath(pair, 'lock', 'turns'))];
  await theirs.does('acquire');
  expect((await a.acquire('turns', mine)).body).toMatchObject({ status: 409, code: 'lock-held' });
  expect(((await b.showLock('turns')) as { holders: unknown[] }).holders).toMatchObject([{ external: true }]);
  const waiting = new Awaited(a.hold('turns', mine, { waitMs: TTL_MS }));
  await untilContenders(b, 'locks', 'turns', 2);
  await throughout('we wait', () => !waiting.done);
  await theirs.does('release');
  const { fencingToken } = await waiting.value;

  const acquiring = new Awaited(theirs.does('acquire'));
  await untilContenders(b, 'locks', 'turns', 2);
  await throughout('they wait', () => !acquiring.done);
  expect((await b.release('turns', mine)).status).toBe(204);
  await acquiring.value;
  const { holders } = (await a.showLock('turns')) as { holders: { fencingToken: number }[] };
  expect(holders[0]?.fencingToken).toBeGreaterThan(fencingToken);
  await theirs.does('release');
}

async function standInOneLine({ scene, make }: LockScenes): Promise<void> {
  const { pair, peer } = scene;
  const { a, b } = pair;
  const path = linePath(pair, 'lock', 'mixed');
  const first = await lease(pair);
  await a.hold('mixed', first);
  const order: number[] = [];
  let inside = 0;
  let together = 0;
  const enter = (who: number): void => {
    order.push(who);
    inside += 1;
    together = Math.max(together, inside);
  };
  const served: Promise<unknown>[] = [];
  for (let who = 0; who < 8; who += 1) {
    if (who % 2 === 0) {
      const theirs = await make(peer, path);
      served.push(
        theirs.does('acquire').then(async () => {
          enter(who);
          inside -= 1;
          await theirs.does('release');
        }),
      );
    } else {
      const [mine, replica] = [await lease(pair), who % 4 === 1 ? a : b];
      served.push(
        replica.hold('mixed', mine, { waitMs: TTL_MS }).then(async () => {
          enter(who);
          inside -= 1;
          await replica.release('mixed', mine);
        }),
      );
    }
    await untilContenders(b, 'locks', 'mixed', who + 2);
  }
  await a.release('mixed', first);
  await Promise.all(served);
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(together).toBe(1);
}

async function dieHolding({ scene, library, make }: LockScenes): Promise<void> {
  const { pair, peer } = scene;
  const { a, b } = pair;
  const path = linePath(pair, 'lock', 'dies');
  await using doomed = await startPeer(library, DOOMED_MS);
  await (await make(doomed, path)).does('acquire');
  const mine = await lease(pair);
  const waiting = new Awaited(a.hold('dies', mine, { waitMs: TTL_MS }));
  await untilContenders(b, 'locks', 'dies', 2);
  const theirs = await make(peer, path);
  const acquiring = new Awaited(theirs.does('acquire'));
  await untilContenders(b, 'locks', 'dies', 3);
  await doomed.kill();
  await waiting.value;
  expect(acquiring.done).toBe(false);
  await expireSession(b, mine.leaseId);
  await acquiring.value;
  await theirs.does('release');
}

/** A barrier that one side raises and lifts, and at which the other waits. */
export function testBarrier(title: string, scene: { pair: Pair; peer: Peer }): void {
  test(`${title}: raised and lifted by one, waited for by the other`, { timeout: SCENE_MS }, async () => {
    const { pair, peer } = scene;
    const { a, b } = pair;
    const path = new Layout(pair.root).barrier('default', 'gate');
    const [theirs, waiter] = [await peer.make('barrier', path), await peer.make('barrier', path)];
    await theirs.does('raise');
    expect((await a.call('GET', '/v1/barriers/gate')).body).toMatchObject({ raised: true, external: true });
    const ours = new Awaited(b.call('GET', '/v1/barriers/gate?waitMs=30000'));
    await throughout('we wait', () => !ours.done);
    await theirs.does('lift');
    expect((await ours.value).body).toMatchObject({ raised: false });

    expect((await a.call('PUT', '/v1/barriers/gate')).status).toBe(201);
    const waiting = new Awaited(waiter.does('wait'));
    await throughout('they wait', () => !waiting.done);
    expect((await b.call('DELETE', '/v1/barriers/gate')).status).toBe(204);
    await waiting.value;
  });
}

/** Three enter together, one of them theirs, which comes first or last. */
export async function enterTogether(
  { pair, peer }: { pair: Pair; peer: Peer },
  name: string,
  theirsFirst: boolean,
): Promise<{ one: LeaseHandle; two: LeaseHandle; theirs: Thing }> {
  const { a, b } = pair;
  const path = new Layout(pair.root).doubleBarrier('default', name);
  const [one, two] = [await lease(pair), await lease(pair)];
  const theirs = await peer.make('double', path, 3);
  const entering: Awaited<unknown>[] = [];
  const here = [
    () => theirs.does('enter'),
    () => enter(a, name, one, { size: 3, waitMs: TTL_MS }),
    () => enter(b, name, two, { size: 3, waitMs: TTL_MS }),
  ];
  for (const [i, go] of (theirsFirst ? here : here.toReversed()).entries()) {
    await throughout('nobody has entered', () => entering.every(({ done }) => !done), { forMs: 100 });
    entering.push(new Awaited<unknown>(go()));
    if (i < 2) await untilMembers(a, name, i + 1);
  }
  await Promise.all(entering.map(({ value }) => value));
  return { one, two, theirs };
}
