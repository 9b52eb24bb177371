/**
 * What went wrong with Consul's sessions and locks, tried here: when a loss is noticed, how long a TTL is, and what a
 * delay of zero means. docs/regressions.md says more about each.
 */
import { expect, test } from 'vitest';
import { lockDelaysOf } from '../../src/leases/layout.js';
import { startCuttable, Witness } from '../support/scene.js';
import { eventually } from '../support/eventually.js';
import { EventReader } from '../support/http/event-stream.js';
import { Noise, openReferenceSession } from '../support/noise.js';
import { expireSession, startPair, startReplica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';

const TTL_MS = 2_000;
/** Long enough that the stream and the next holder hear of what happens to it more than a moment apart. */
const CUT_OFF_TTL_MS = 6_000;
const LONG_TTL_MS = 20_000;

/**
 * Packets were dropped, not refused: renewals failed and were only logged, and the watch of the lock heard nothing for
 * minutes.
 */
test('Consul #18271: a holder whose replica is cut off hears of it before somebody else can hold, from its stream and from its heartbeat (C12)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: '1000' } });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const [holder, next] = [await a.createLease({ ttlMs: CUT_OFF_TTL_MS }), await b.createLease({ ttlMs: LONG_TTL_MS })];
  await a.hold('partitioned', holder);
  const granted = b.hold('partitioned', next, { waitMs: LONG_TTL_MS }).then(() => performance.now());
  await b.untilWaiting('partitioned', 1);
  await using events = await EventReader.open(a.url, '/v1/leases/self/events', { leaseToken: holder.leaseToken });
  expect((await events.next()).event).toBe('state');
  proxy.suspend(); // nothing passes, and nobody is told
  const heartbeat = a.heartbeat(holder).then(({ status }) => ({ status, at: performance.now() }));
  const said = await events.next();
  expect(said).toMatchObject({ event: 'problem', data: { status: 503, code: 'zookeeper-unavailable' } });
  await eventually('the stream has ended', () => events.ended);
  const { status, at } = await heartbeat;
  expect(status).toBe(503);
  const grantedAt = await granted;
  expect(events.lastEventAt).toBeLessThan(grantedAt);
  expect(at).toBeLessThan(grantedAt);
});

/** The server doubled every TTL, as a grace for the network. */
test('Consul #1172: what a silent client held is free after one TTL, at the next tick of ZooKeeper, and not after two', async () => {
  await using pair = await startPair();
  const next = await pair.b.createLease({ ttlMs: LONG_TTL_MS });
  const holder = await pair.a.createLease({ ttlMs: TTL_MS });
  await pair.a.hold('silent', holder);
  const granted = pair.b.hold('silent', next, { waitMs: LONG_TTL_MS }).then(() => performance.now());
  await pair.b.untilWaiting('silent', 1);
  const reference = await openReferenceSession(TTL_MS);
  using noise = new Noise();
  const lastHeartbeatAt = performance.now();
  expect((await pair.a.heartbeat(holder)).body).toMatchObject({ ttlMs: TTL_MS });
  const referenceAt = await reference.fallSilent();
  const livedMs = (await granted) - lastHeartbeatAt;
  expect(livedMs).toBeGreaterThanOrEqual(TTL_MS);
  // The server may be late itself, with any session that falls silent now.
  const serverLateMs = Math.max(0, referenceAt - lastHeartbeatAt - TTL_MS - timing.tickMs);
  expect(livedMs - noise.ms - serverLateMs).toBeLessThan(1.5 * TTL_MS);
});

/** A delay of 0 could not be told from one that was not given, and the default of 15 s took its place. */
test('Consul #4508: a lockDelayMs of 0 is no delay, also in a line where others have one', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [delayed, holder, next] = [
    await pair.a.createLease({ ttlMs: LONG_TTL_MS }),
    await pair.a.createLease({ ttlMs: LONG_TTL_MS }),
    await pair.b.createLease({ ttlMs: LONG_TTL_MS }),
  ];
  await pair.a.hold('zero', delayed, { lockDelayMs: 60_000 });
  await pair.a.release('zero', delayed);
  await pair.a.hold('zero', holder, { lockDelayMs: 0 });
  expect((await witness.control.getChildren(lockDelaysOf(witness.directory('zero')))).children).toEqual([]);
  const waiting = pair.b.acquire('zero', next, { waitMs: timing.eventuallyMs });
  await pair.a.untilWaiting('zero', 1);
  await expireSession(pair.a, holder.leaseId);
  expect((await waiting).status).toBe(200);
});
