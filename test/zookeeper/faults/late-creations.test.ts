/** Creations that a hung server was given, and passes on when it goes on: after the session was used elsewhere. */
import { expect, test } from 'vitest';
import type { LeaseSession } from '../../../src/zookeeper/lease-session.js';
import { eventually } from '../../support/eventually.js';
import { rounds } from '../../support/scene.js';
import { startEnsemble } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';
import { attachLease, openLease, within } from '../../support/zookeeper/sessions.js';

const TTL_MS = 8_000;
const SESSIONS = 30;
/** Of a handshake, at least. */
const HANDSHAKE_BYTES = 40;
const EPHEMERAL = { mode: 'ephemeral-sequential' } as const;

interface Fenced {
  session: LeaseSession;
  /** Path of its own node. */
  own: string;
  /** Begin of the path of a place. */
  place: string;
}

async function openFenced(at: string, name: string): Promise<Fenced> {
  const session = await openLease(at, { timeoutMs: TTL_MS });
  const own = `/lease-${name}`;
  await session.create(own, undefined, { mode: 'ephemeral' });
  session.fencedBy(own);
  return { session, own, place: `/place-${name}-` };
}

/** Creates the places again, at another server. */
async function useAt(at: string, leases: readonly Fenced[]): Promise<void> {
  await Promise.all(
    leases.map(async ({ session, own, place }) => {
      const next = await attachLease(at, session.identity, { timeoutMs: TTL_MS });
      next.fencedBy(own);
      await next.raiseFence(within());
      await next.create(place, undefined, EPHEMERAL, within());
    }),
  );
}

/** Ends the session. @returns its places */
async function placesOf(session: LeaseSession): Promise<string[]> {
  await session.sync('/');
  const paths = await session.getEphemerals('/');
  await session.close();
  return paths.filter((path) => path.startsWith('/place-'));
}

test('are refused, also if the session has come back to that server (C46)', { timeout: scaled(120_000) }, async () => {
  await using ensemble = await startEnsemble({ proxied: true });
  const [hung, other] = await ensemble.followers();
  if (hung?.proxy === undefined || other === undefined) throw new Error('two of three follow');
  const { bytes } = hung.proxy.counters;
  for (let round = 0; round < rounds(6); round += 1) {
    // Without the proxy, which drops what it has of a connection that ends.
    const opening = Array.from({ length: SESSIONS }, (_, i) => openFenced(`127.0.0.1:${hung.port}`, `${round}-${i}`));
    const leases = await Promise.all(opening);
    hung.pause();
    const lost = leases.map(({ session, place }) => session.create(place, undefined, EPHEMERAL, within()));
    const given = Promise.allSettled(lost);
    await eventually('they are given to the server', () => leases.every(({ session }) => session.inFlight > 0));
    await new Promise(setImmediate); // what is submitted goes out at the end of the turn
    for (const { session } of leases) session.detach();

    // Somebody attaches there again before or after the session is used elsewhere: both have happened.
    if (round % 2 === 0) await useAt(other.connectString, leases);
    const sent = bytes.toZooKeeper;
    const back = leases.map(({ session }) =>
      attachLease(hung.connectString, session.identity, { timeoutMs: TTL_MS, deadline: within() }),
    );
    const arrived = (): boolean => bytes.toZooKeeper - sent >= SESSIONS * HANDSHAKE_BYTES;
    await eventually('all handshakes have arrived', arrived);
    if (round % 2 === 1) await useAt(other.connectString, leases);
    hung.resume();
    await given;
    for (const session of await Promise.all(back)) expect(await placesOf(session)).toHaveLength(1);
  }
});
