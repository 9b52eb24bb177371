/** When a silent holder is replaced: no earlier than its TTL, and hardly later. */
import { expect, test } from 'vitest';
import { Noise, openReferenceSession, ServerNoise } from '../../support/noise.js';
import { startPair, type Pair } from '../../support/start-gateway.js';
import { scaled, timing } from '../../support/timing.js';

const ROUNDS = 50;
const AT_ONCE = 10;
const TTL_MS = 2_000;
/** Notification, grant and answer. */
const LATE_MS = 250;

test(
  `a holder that falls silent is replaced within [TTL, TTL + tick + 250 ms], ${ROUNDS} times`,
  { timeout: scaled(120_000) },
  async () => {
    await using pair = await startPair();
    await using server = await ServerNoise.start();
    const early: number[] = [];
    const late: number[] = [];
    const beyond: number[] = [];
    for (let round = 0; round < ROUNDS; round += AT_ONCE) {
      const measured = await Promise.all(
        Array.from({ length: AT_ONCE }, (_, i) => fallSilent(pair, server, `silent-${round + i}`)),
      );
      for (const { sinceSent, sinceAnswered, beyondReference } of measured) {
        early.push(sinceSent);
        late.push(sinceAnswered);
        beyond.push(beyondReference);
      }
    }
    console.table({
      'since the last heartbeat was sent': spread(early),
      'since it was answered': spread(late),
      'beyond the TTL, a tick and what the machine made of it': spread(beyond),
    });
    expect(Math.min(...early)).toBeGreaterThanOrEqual(TTL_MS);
    expect(Math.max(...beyond)).toBeLessThanOrEqual(LATE_MS);
  },
);

interface Measured {
  sinceSent: number;
  sinceAnswered: number;
  /**
   * After the TTL and a tick, or the end of a session that fell silent at the same time and that no replica knows,
   * without the noise.
   */
  beyondReference: number;
}

/** One holder, one waiter at the other replica, one last heartbeat. @returns ms until the waiter is granted */
async function fallSilent({ a, b }: Pair, server: ServerNoise, name: string): Promise<Measured> {
  const [holder, next] = await Promise.all([a.createLease({ ttlMs: TTL_MS }), b.createLease({ ttlMs: 10_000 })]);
  const held = await a.hold(name, holder);
  const waiting = b.acquire(name, next, { waitMs: 30_000 });
  await a.untilWaiting(name, 1);
  const reference = await openReferenceSession(TTL_MS);
  const sentAt = performance.now();
  expect((await a.heartbeat(holder)).status).toBe(200);
  const answeredAt = performance.now();
  using noise = new Noise();
  const serverBeforeMs = server.ms;
  const referenceEnded = reference.fallSilent();
  const granted = await waiting;
  const grantedAt = performance.now();
  const noiseMs = noise.ms + server.ms - serverBeforeMs;
  const endedAt = Math.max(answeredAt + TTL_MS + timing.tickMs, await referenceEnded);
  expect(granted.status).toBe(200);
  expect((granted.body as { fencingToken: number }).fencingToken).toBeGreaterThan(held.fencingToken);
  expect((await a.heartbeat(holder)).status).toBe(410);
  return {
    sinceSent: grantedAt - sentAt,
    sinceAnswered: grantedAt - answeredAt,
    beyondReference: grantedAt - noiseMs - endedAt,
  };
}

function spread(values: readonly number[]): Record<string, number> {
  const sorted = [...values].sort((x, y) => x - y).map(Math.round);
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] as number;
  return { min: at(0), median: at(0.5), p95: at(0.95), max: at(1) };
}
