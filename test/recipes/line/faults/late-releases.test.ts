/** Releases that a hung server was given, and passes on when it goes on: after the hold was answered elsewhere. */
import { expect, test } from 'vitest';
import { startHanging } from '../../../support/late-writes.js';
import { Witness } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 20_000;
const NUMBERS = Array.from({ length: 30 }, (_, i) => i);

test.each(['holdId', 'requestId'])(
  'by %s free nothing that a repeated acquire was answered since (C7)',
  { timeout: scaled(120_000) },
  async (by) => {
    await using hanging = await startHanging();
    const { a, b, root, other } = hanging;
    await using witness = await Witness.start(root, other.connectString);
    const holders = await Promise.all(
      NUMBERS.map(async (i) => {
        const lease = await a.createLease({ ttlMs: TTL_MS });
        return { name: `late-${i}`, lease, ...(await a.hold(`late-${i}`, lease, { requestId: 'once' })) };
      }),
    );

    await hanging.giveUp('delete', (signal) =>
      holders.map(({ name, holdId, lease: { leaseToken } }) => {
        const body = by === 'holdId' ? { holdId } : { requestId: 'once' };
        return b.call('POST', `/v1/locks/${name}/release`, { body, leaseToken, signal });
      }),
    );
    const repeated = await Promise.all(holders.map(({ name, lease }) => a.hold(name, lease, { requestId: 'once' })));
    expect(repeated.map(({ alreadyHeld }) => alreadyHeld)).toEqual(holders.map(() => true));
    await hanging.passOn(
      holders.map(({ lease }) => lease),
      TTL_MS,
    );
    const standing = await Promise.all(holders.map(({ name }) => witness.holder(name)));
    expect(standing).toEqual(holders.map(({ fencingToken }) => fencingToken));
  },
);
