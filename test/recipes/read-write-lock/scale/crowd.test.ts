/**
 * A crowd of readers and writers over two replicas, for a while: nobody meets a writer, nobody starves, nobody is woken
 * for nothing. `SCALE_MS` is how long (60 s to be sure).
 */
import { env } from 'node:process';
import { expect, test } from 'vitest';
import type { Held, LeaseHandle } from '../../../support/http/client.js';
import { passed } from '../../../support/eventually.js';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

type Mode = 'read' | 'write';

const READERS = 500;
const WRITERS = 50;
const HOLD_MS = 5;
const DURATION_MS = Number(env['SCALE_MS'] ?? 15_000);
const TTL_MS = 60_000;
const WAIT_MS = 55_000;
/** How often everybody takes a turn, however long that lasts. */
const TURNS_MIN = 3;
/**
 * In order of arrival nobody lets more than all the others before it, and those again who come back while its request
 * is on its way. How long that lasts is the machine's.
 */
const PASSED_BY_MAX = 2 * (READERS + WRITERS);

/** What the lock protects. Nobody but the test keeps readers and writers apart here. */
class Shared {
  readonly violations: string[] = [];
  readers = 0;
  writers = 0;
  readersAtOnce = 0;
  /** How many turns were begun. */
  turns = 0;
  #highestOfAll = -1;
  #highestOfWriters = -1;

  /** Called as soon as a client was told that it holds. */
  enter(mode: Mode, fencingToken: number): void {
    this.turns += 1;
    const excludedBy = mode === 'read' ? this.writers : this.writers + this.readers;
    if (excludedBy > 0) this.violations.push(`to ${mode} beside ${this.readers} readers and ${this.writers} writers`);
    const above = mode === 'read' ? this.#highestOfWriters : this.#highestOfAll;
    if (fencingToken <= above) this.violations.push(`to ${mode} with the token ${fencingToken} after ${above}`);
    this.#highestOfAll = Math.max(this.#highestOfAll, fencingToken);
    if (mode === 'read') this.readers += 1;
    else {
      this.writers += 1;
      this.#highestOfWriters = fencingToken;
    }
    this.readersAtOnce = Math.max(this.readersAtOnce, this.readers);
  }

  /** Called before a client asks to release. */
  leave(mode: Mode): void {
    if (mode === 'read') this.readers -= 1;
    else this.writers -= 1;
  }
}

interface Party {
  mode: Mode;
  replica: Replica;
  lease: LeaseHandle;
  waits: number[];
  /** For each wait: how many others were let in meanwhile. */
  passedBy: number[];
}

test(
  `${READERS} readers and ${WRITERS} writers at two replicas keep apart, take turns and are woken once per turn`,
  { timeout: DURATION_MS + scaled(120_000) },
  async () => {
    await using pair = await startPair();
    const shared = new Shared();
    const parties = await gather(pair);
    const total = async (name: string): Promise<number> =>
      (await pair.a.metric(name, { kind: 'rwlock' })) + (await pair.b.metric(name, { kind: 'rwlock' }));
    const until = performance.now() + DURATION_MS;
    await Promise.all(parties.map((party) => takeTurns(party, shared, until)));
    const [wakeups, spurious, handoffs, listings] = [
      await total('postern_wakeups_total'),
      await total('postern_spurious_wakeups_total'),
      await total('postern_handoffs_total'),
      await total('postern_line_listings_total'),
    ];
    const byMode = (mode: Mode): Waits => waitsOf(parties.filter((party) => party.mode === mode));
    const [reads, writes] = [byMode('read'), byMode('write')];
    console.table({ readers: reads, writers: writes });
    console.log(
      `${DURATION_MS} ms: ${shared.violations.length} violations, up to ${shared.readersAtOnce} readers at once, ` +
        `${wakeups} wake-ups for ${handoffs} grants after a wait, ${spurious} of them spurious, ${listings} listings`,
    );
    expect(shared.violations).toEqual([]);
    expect(spurious).toBeLessThanOrEqual(wakeups / 100);
    expect(shared.readersAtOnce).toBeGreaterThan(1);
    for (const { fewestTurns, mostPassedBy } of [reads, writes]) {
      expect(fewestTurns).toBeGreaterThanOrEqual(TURNS_MIN);
      expect(mostPassedBy).toBeLessThanOrEqual(PASSED_BY_MAX);
    }
  },
);

/** Readers and writers in one mixed crowd, half of each at either replica. */
async function gather({ a, b }: Pair): Promise<Party[]> {
  const each = (READERS + WRITERS) / WRITERS;
  return Promise.all(
    Array.from({ length: READERS + WRITERS }, async (_, i): Promise<Party> => {
      const replica = i % 2 === 0 ? a : b;
      const lease = await replica.createLease({ ttlMs: TTL_MS });
      return { mode: i % each === 0 ? 'write' : 'read', replica, lease, waits: [], passedBy: [] };
    }),
  );
}

async function takeTurns(
  { mode, replica, lease, waits, passedBy }: Party,
  shared: Shared,
  until: number,
): Promise<void> {
  const { leaseToken } = lease;
  while (performance.now() < until || waits.length < TURNS_MIN) {
    const startedAt = performance.now();
    const turnsBefore = shared.turns;
    const held = (await replica.expect(200, 'POST', '/v1/rwlocks/crowd/acquire', {
      body: { mode, waitMs: WAIT_MS },
      leaseToken,
    })) as Held;
    shared.enter(mode, held.fencingToken);
    waits.push(performance.now() - startedAt);
    passedBy.push(shared.turns - turnsBefore - 1);
    await passed(Math.random() * HOLD_MS);
    shared.leave(mode);
    await replica.expect(204, 'POST', '/v1/rwlocks/crowd/release', { body: { holdId: held.holdId }, leaseToken });
  }
}

interface Waits {
  turns: number;
  fewestTurns: number;
  meanMs: number;
  p99Ms: number;
  longestMs: number;
  longestToMean: number;
  mostPassedBy: number;
}

function waitsOf(parties: readonly Party[]): Waits {
  const waits = parties.flatMap((party) => party.waits).sort((x, y) => x - y);
  const mean = waits.reduce((x, y) => x + y, 0) / waits.length;
  const longest = waits.at(-1) as number;
  return {
    turns: waits.length,
    fewestTurns: Math.min(...parties.map((party) => party.waits.length)),
    meanMs: Math.round(mean),
    p99Ms: Math.round(waits[Math.floor(waits.length * 0.99)] as number),
    longestMs: Math.round(longest),
    longestToMean: Math.round((longest / mean) * 100) / 100,
    mostPassedBy: Math.max(...parties.map((party) => Math.max(...party.passedBy))),
  };
}
