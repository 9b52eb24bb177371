/** Claims that a hung server was told to end, and ends when it goes on: after they were prolonged elsewhere. */
import { expect, test } from 'vitest';
import { startHanging } from '../../../support/late-writes.js';
import { scaled } from '../../../support/timing.js';
import { claim, configure, pushBodies, queueOf, settle } from '../client.js';

const TTL_MS = 20_000;
const CLAIM_MS = 60_000;
const NUMBERS = Array.from({ length: 30 }, (_, i) => i);

test.each([
  // An acknowledgement goes without the session as long as nobody has prolonged the claim.
  { op: 'ack', prolonged: 1 },
  { op: 'nack', prolonged: 0 },
] as const)(
  'what is given up of $op ends no claim that was prolonged since (C35)',
  { timeout: scaled(120_000) },
  async ({ op, prolonged }) => {
    await using hanging = await startHanging();
    const { a, b } = hanging;
    await configure(a, 'work');
    await pushBodies(a, 'work', NUMBERS);
    const extend = { op: 'extend', claimMs: CLAIM_MS } as const;
    const claimers = await Promise.all(
      NUMBERS.map(async () => {
        const lease = await a.createLease({ ttlMs: TTL_MS });
        // What follows creates no node for the lease's marks, which its fence would keep away.
        await settle(a, 'work', 'nack', lease, await claim(a, 'work', lease, { claimMs: CLAIM_MS }));
        return { lease, claims: await claim(a, 'work', lease, { claimMs: CLAIM_MS }) };
      }),
    );
    const prolongAll = () => Promise.all(claimers.map(({ lease, claims }) => settle(a, 'work', extend, lease, claims)));
    for (let i = 0; i < prolonged; i += 1) await prolongAll();

    await hanging.giveUp('multi', (signal) =>
      claimers.map(({ claims, lease: { leaseToken } }) => {
        const body = { claimIds: claims.map(({ claimId }) => claimId) };
        return b.call('POST', `/v1/queues/work/${op}`, { body, leaseToken, signal });
      }),
    );
    expect((await prolongAll()).flat()).toMatchObject(NUMBERS.map(() => ({ status: 200 })));
    await hanging.passOn(
      claimers.map(({ lease }) => lease),
      TTL_MS,
    );
    expect(await queueOf(a, 'work')).toMatchObject({ depth: NUMBERS.length, claimed: NUMBERS.length });
    const acknowledged = claimers.map(({ lease, claims }) => settle(a, 'work', 'ack', lease, claims));
    expect((await Promise.all(acknowledged)).flat()).toMatchObject(NUMBERS.map(() => ({ status: 200 })));
    expect(await queueOf(a, 'work')).toMatchObject({ depth: 0 });
  },
);
