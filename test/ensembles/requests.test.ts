/** What one ensemble that is away does to requests that are about the others: nothing (ADR 41). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { inNamespace, startTwo, untilInForce, type Two } from './two.js';

const TTL_MS = 20_000;
/** Far more than a lease has: a request that waits for what does not answer does not end in time. */
const SETTINGS = { POSTERN_REQUEST_TIMEOUT_MS: '120000', POSTERN_OPS_PORT: '0' };

let two: Two;
let replica: Replica;
let path: string;

beforeAll(async () => {
  two = await startTwo();
  path = two.file(1, { orders: 'west' });
  replica = await two.start(path);
  await untilInForce(replica, 1);
}, scaled(60_000));

afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await two[Symbol.asyncDispose]();
}, scaled(60_000));

async function tokenIn(namespace: string): Promise<string> {
  const { leaseToken } = await replica.expect(201, 'POST', '/v1/leases', {
    body: { ttlMs: TTL_MS },
    ...inNamespace(namespace),
  });
  return leaseToken as string;
}

/** Of a replica that was started while `west` was away, so it does not know with which key tokens are sealed there. */
async function withLateReplica(act: (late: Replica) => Promise<void>): Promise<void> {
  await two.west.kill();
  try {
    await using late = await two.start(path, { settings: SETTINGS });
    await act(late);
  } finally {
    await two.west.restart();
    await untilInForce(replica, 1);
  }
}

/** How long a request took, ms. */
async function timeOf(act: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  await act();
  return performance.now() - begun;
}

const IN_TIME_MS = scaled(TTL_MS / 2);

test('leases are prolonged in time, whatever else is in the batch', { timeout: scaled(90_000) }, async () => {
  const there = await tokenIn('orders');
  const here = [await tokenIn('billing'), await tokenIn('default')];
  await withLateReplica(async (late) => {
    // The first time it does not know the key of `default` either.
    for (const round of ['first', 'second']) {
      const took = await timeOf(async () => {
        const { items } = await late.expect(200, 'POST', '/v1/leases/heartbeat', {
          body: { leaseTokens: [there, ...here] },
        });
        expect(items, round).toMatchObject([
          { status: 503, code: 'zookeeper-unavailable', outcome: 'not-applied' },
          { status: 200 },
          { status: 200 },
        ]);
      });
      expect(took, round).toBeLessThan(IN_TIME_MS);
    }
  });
});

test('who is away holds up no refusal elsewhere, and strangers are not told', { timeout: scaled(90_000) }, async () => {
  const stranger = { leaseToken: 'v1.nonsense', ...inNamespace('billing') };
  await withLateReplica(async (late) => {
    const took = await timeOf(async () => {
      await late.expect(403, 'POST', '/v1/locks/l/acquire', { body: { requestId: 'a' }, ...stranger });
    });
    expect(took).toBeLessThan(IN_TIME_MS);
    const reasons = ['Why is told at the port for operations.'];
    expect(await late.expect(200, 'GET', '/readyz')).toEqual({ ready: true, reasons });
    const told = await fetch(`http://127.0.0.1:${late.gateway.opsPort}/readyz`);
    expect(told.status).toBe(200);
    expect(await told.text()).toContain('west');
  });
});

test('a lease token says nothing about the namespace of a reservation or a state', async () => {
  const leaseToken = await tokenIn('orders');
  const body = { forMs: 60_000, owner: 'ann' };
  await replica.expect(200, 'POST', '/v1/locks/staging/reserve', { body, leaseToken });
  await replica.expect(200, 'POST', '/v1/terraform/prod', { body: { version: 4 }, leaseToken });
  const reserved = async (namespace: string): Promise<string[]> => {
    const { items } = await replica.expect(200, 'GET', '/v1/reservations', inNamespace(namespace));
    return (items as { name: string }[]).map(({ name }) => name);
  };
  expect([await reserved('default'), await reserved('orders')]).toEqual([['staging'], []]);
  await replica.expect(200, 'GET', '/v1/terraform/prod', inNamespace('default'));
  await replica.expect(404, 'GET', '/v1/terraform/prod', inNamespace('orders'));
});
