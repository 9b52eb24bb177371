/** Locks that a replica saw become free: one write and no listing, and never two holders for it. */
import { expect, test } from 'vitest';
import { FreeLines, proves } from '../../../../src/recipes/line/known-free.js';
import { idleDirectory, ownDirectory, readLineDirectory } from '../../../../src/recipes/line/directory.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import { Witness } from '../../../support/scene.js';

const TTL_MS = 20_000;

/** Listings of locks' lines that this replica has asked for so far. */
function listings(replica: Replica): Promise<number> {
  return replica.metric('postern_line_listings_total', { kind: 'lock' });
}

async function takeAndRelease(replica: Replica, name: string, lease: LeaseHandle): Promise<number> {
  const { fencingToken } = await replica.hold(name, lease);
  await replica.release(name, lease);
  return fencingToken;
}

test('a lock that is taken again and again is hardly ever listed', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await takeAndRelease(pair.a, 'again', lease);
  const before = await listings(pair.a);
  const startedAt = performance.now();
  const tokens: number[] = [];
  for (let i = 0; i < 20; i += 1) tokens.push(await takeAndRelease(pair.a, 'again', lease));
  // Once in ten seconds the directory has to be seen again.
  const allowed = Math.ceil((performance.now() - startedAt) / 10_000);
  expect((await listings(pair.a)) - before).toBeLessThanOrEqual(allowed);
  expect(new Set(tokens).size).toBe(20);
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
});

test('whoever came between is found, and is not joined by a second holder (C2)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [mine, other] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.b.createLease({ ttlMs: TTL_MS })];
  await takeAndRelease(pair.a, 'between', mine);
  await takeAndRelease(pair.a, 'between', mine);
  const holder = await pair.b.hold('between', other);
  expect((await pair.a.acquire('between', mine)).body).toMatchObject({ code: 'lock-held' });
  expect((await witness.line('between')).map(({ stat }) => stat.czxid)).toEqual([holder.fencingToken]);
  const waiting = pair.a.hold('between', mine, { waitMs: 10_000 });
  await pair.b.untilWaiting('between', 1);
  await pair.b.release('between', other);
  expect((await waiting).fencingToken).toBeGreaterThan(holder.fencingToken);
});

test('somebody else who came and went between proves nothing either way', async () => {
  await using pair = await startPair();
  const [mine, other] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.b.createLease({ ttlMs: TTL_MS })];
  await takeAndRelease(pair.a, 'visited', mine);
  await takeAndRelease(pair.b, 'visited', other);
  const before = await listings(pair.a);
  await pair.a.hold('visited', mine);
  expect((await listings(pair.a)) - before).toBe(1);
});

test('a request that was sent twice has one place, also where the lock was seen to become free (C6)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await takeAndRelease(pair.a, 'twice', lease);
  await takeAndRelease(pair.b, 'twice', lease);
  await takeAndRelease(pair.a, 'twice', lease);
  const [first, second] = await Promise.all([pair.a.acquire('twice', lease), pair.b.acquire('twice', lease)]);
  const held = [first, second].filter(({ status }) => status === 200);
  expect(held.length).toBeGreaterThan(0);
  const line = await witness.line('twice');
  expect(line).toHaveLength(1);
  for (const { body } of held) expect(body).toMatchObject({ fencingToken: line[0]?.stat.czxid });
});

test('a crowd that lines up behind one another is listed hardly ever, and is granted in the order of its numbers (C2)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const leases = await Promise.all(Array.from({ length: 12 }, () => pair.a.createLease({ ttlMs: TTL_MS })));
  const [first, second, ...others] = leases as [LeaseHandle, LeaseHandle, ...LeaseHandle[]];
  await pair.a.hold('crowd', first);
  const granted: number[] = [];
  const line = async (replica: Replica, lease: LeaseHandle): Promise<void> => {
    const { fencingToken } = await replica.hold('crowd', lease, { waitMs: 30_000 });
    granted.push(fencingToken);
    await replica.release('crowd', lease);
  };
  const waiting = [line(pair.a, second)];
  await pair.b.untilWaiting('crowd', 1);
  const before = await listings(pair.a);
  for (const [i, lease] of others.entries()) {
    waiting.push(line(pair.a, lease));
    await pair.b.untilWaiting('crowd', i + 2);
  }
  // The first behind the waiter has to see the directory, and so does one in ten seconds.
  expect((await listings(pair.a)) - before).toBeLessThanOrEqual(2);
  // Somebody from elsewhere stands between: the next one here finds that out.
  const stranger = await pair.b.createLease({ ttlMs: TTL_MS });
  waiting.push(line(pair.b, stranger));
  await pair.b.untilWaiting('crowd', others.length + 2);
  const last = await pair.a.createLease({ ttlMs: TTL_MS });
  waiting.push(line(pair.a, last));
  await pair.b.untilWaiting('crowd', others.length + 3);
  const inOrder = (await witness.line('crowd')).slice(1).map(({ stat }) => stat.czxid);
  await pair.a.release('crowd', first);
  await Promise.all(waiting);
  expect(granted).toEqual([...granted].sort((a, b) => a - b));
  expect(granted).toHaveLength(inOrder.length);
});

test('a directory says that it is idle before it is removed, and that it stays when it was used meanwhile (C10)', async () => {
  await using pair = await startPair({ housekeeping: { everyMs: 30, idleMs: 1, removedAfterMs: 600_000 } });
  await using witness = await Witness.start(pair.root);
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  const says = (idle: boolean) => async (): Promise<boolean> => {
    const stat = await witness.control.exists(witness.directory('idle'));
    return stat !== undefined && readLineDirectory(stat).idle === idle;
  };
  await takeAndRelease(pair.a, 'idle', lease);
  await eventually('it says that it is idle', says(true));
  await pair.b.hold('idle', lease);
  await eventually('it says that it stays', says(false));
  await pair.b.release('idle', lease);
  await eventually('it says that it is idle again', says(true));
});

test('a number proves only the very next one, seen of a directory that stays, for a few seconds by two clocks', () => {
  const stat = { version: 0, mzxid: 1, dataLength: ownDirectory(false).length } as Parameters<
    typeof readLineDirectory
  >[0];
  const directory = readLineDirectory(stat);
  const idle = readLineDirectory({ ...stat, dataLength: idleDirectory(directory).length });
  const now = performance.now();
  const ctime = 1_700_000_000_000;
  const seen = { directory, since: now, ensembleSince: ctime };
  const line = { sequence: 7, seen };
  const given = (sequence: number, at = ctime): Parameters<typeof proves>[1] => ({ sequence, ctime: at });
  expect(proves(line, given(8))).toBe(true);
  expect(proves(line, given(7))).toBe(false);
  expect(proves(line, given(9))).toBe(false);
  expect(proves({ ...line, seen: undefined }, given(8))).toBe(false);
  expect(proves({ ...line, seen: { ...seen, directory: idle } }, given(8))).toBe(false);
  // By either clock, and by a clock of the ensemble that has jumped.
  expect(proves({ ...line, seen: { ...seen, since: now - 11_000 } }, given(8))).toBe(false);
  expect(proves(line, given(8, ctime + 11_000))).toBe(false);
  expect(proves(line, given(8, ctime - 11_000))).toBe(false);
});

test('what is known of a line is used once', () => {
  const lines = new FreeLines();
  lines.left('/x', { sequence: 1, seen: undefined });
  expect(lines.has('/x')).toBe(true);
  expect(lines.take('/x')).toMatchObject({ sequence: 1 });
  expect(lines.take('/x')).toBeUndefined();
});
