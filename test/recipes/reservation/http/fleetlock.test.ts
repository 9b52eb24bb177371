/** FleetLock as machines speak it, over two replicas (ADR 31). */
import { describe, expect, test } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import type { CallOptions, Client, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { Witness } from '../../../support/scene.js';
import { startPair } from '../../../support/start-gateway.js';
import { CLOCK_MS, isFree, reservationOf, tryToReserve } from '../client.js';

const HEADER = { 'fleet-lock-protocol': 'true' };
const HOLD_MS = 120_000;

function ask(client: Client, what: 'pre-reboot' | 'steady-state', id: string, group = 'workers'): Promise<Reply> {
  return send(client, what, { body: { client_params: { id, group } } });
}

function send(client: Client, what: string, options: CallOptions): Promise<Reply> {
  return client.call('POST', `/v1/${what}`, { headers: HEADER, ...options });
}

async function untilOf(client: Client, name: string): Promise<number> {
  return Date.parse((await reservationOf(client, name))?.reservation?.until ?? '');
}

describe('a reboot group', () => {
  test('lets one machine reboot at a time, which needs no lease and may ask again, through any replica', async () => {
    await using pair = await startPair({ settings: { POSTERN_FLEETLOCK_HOLD_MS: String(HOLD_MS) } });
    const before = Date.now();
    const granted = await ask(pair.a, 'pre-reboot', 'one');
    expect([granted.status, granted.body]).toEqual([200, undefined]);
    const first = await untilOf(pair.b, 'fleetlock.workers');
    expect(first).toBeGreaterThanOrEqual(before + HOLD_MS - CLOCK_MS);
    expect(await reservationOf(pair.b, 'fleetlock.workers')).toMatchObject({
      leaseId: null,
      reservation: { owner: 'one', reason: 'reboot (FleetLock)' },
    });
    const refused = await ask(pair.b, 'pre-reboot', 'two');
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'lock-held', kind: 'lock-held', holder: { owner: 'one' } },
    });
    const { detail, value } = refused.body as { detail: string; value: string };
    expect(value).toBe(detail);
    // Another group has a slot of its own.
    expect((await ask(pair.b, 'pre-reboot', 'two', 'masters')).status).toBe(200);

    expect((await ask(pair.b, 'pre-reboot', 'one')).status).toBe(200);
    expect(await untilOf(pair.a, 'fleetlock.workers')).toBeGreaterThan(first);
    expect((await ask(pair.a, 'steady-state', 'two')).status).toBe(200);
    expect(await reservationOf(pair.a, 'fleetlock.workers')).toMatchObject({ reservation: { owner: 'one' } });
    for (const _ of [1, 2]) expect((await ask(pair.b, 'steady-state', 'one')).status).toBe(200);
    expect(await isFree(pair.a, 'fleetlock.workers')).toBe(true);
    expect((await ask(pair.a, 'pre-reboot', 'two')).status).toBe(200);
  });

  test('of machines that ask at once lets one reboot, and the others leave nothing', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
    const replies = await Promise.all(ids.map((id, i) => ask(i % 2 === 0 ? pair.a : pair.b, 'pre-reboot', id)));
    const statuses = replies.map(({ status }) => status);
    expect(statuses.filter((status) => status !== 409)).toEqual([200]);
    const winner = ids[statuses.indexOf(200)] as string;
    expect(await reservationOf(pair.a, 'fleetlock.workers')).toMatchObject({ reservation: { owner: winner } });
    for (const id of ids) expect((await ask(pair.b, 'steady-state', id)).status).toBe(200);
    expect(await isFree(pair.a, 'fleetlock.workers')).toBe(true);
    // Who was refused is answered first, and what it wanted is removed behind that.
    const directory = witness.layout.reservationsOf('default');
    await eventually(
      'nothing is left',
      async () => (await witness.control.getChildren(directory)).children.length === 0,
    );
  });

  test('is kept from rebooting by whoever holds its lock, and belongs to a principal', async () => {
    const scopes = { default: ['read', 'use'] } as const;
    await using keys = await makeApiKeys({
      ann: { ...scopes },
      bob: { default: { lock: { scopes: ['use'], names: ['fleetlock.workers'] } } },
    } as never);
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using ann = keys.as('ann', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    await ann.expect(200, 'POST', '/v1/locks/fleetlock.workers/reserve', {
      body: { forMs: 60_000, owner: 'freeze', requestId: 'a'.repeat(22) },
    });
    expect((await ask(bob, 'pre-reboot', 'one')).body).toMatchObject({ kind: 'lock-held' });
    await ann.expect(409, 'POST', '/v1/pre-reboot', {
      headers: HEADER,
      body: { client_params: { id: 'one', group: 'workers' } },
    });
    expect((await ask(bob, 'steady-state', 'freeze')).status).toBe(200);
    expect(await reservationOf(ann, 'fleetlock.workers')).toMatchObject({ reservation: { owner: 'freeze' } });
    expect(await ask(bob, 'pre-reboot', 'one', 'masters')).toMatchObject({
      status: 403,
      body: { code: 'forbidden', kind: 'lock', name: 'fleetlock.masters' },
    });
    // The same id of another principal is another machine.
    expect((await ask(ann, 'pre-reboot', 'one', 'masters')).status).toBe(200);
    expect((await tryToReserve(ann, 'fleetlock.masters')).status).toBe(409);
  });

  test('takes the key as a password, which is all that machines can send', async () => {
    await using keys = await makeApiKeys({ fleet: { default: ['use'] } });
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const { key } = keys.as('fleet', '');
    const body = { client_params: { id: 'one', group: 'workers' } };
    const as = (user: string): CallOptions => ({
      headers: { ...HEADER, authorization: `Basic ${Buffer.from(user).toString('base64')}` },
      body,
    });
    for (const user of [`fleet:${key}`, `:${key}`, `anybody:${key}`])
      expect((await send(pair.a, 'pre-reboot', as(user))).status).toBe(200);
    for (const user of [key, `fleet:${key.slice(1)}`, 'fleet:', 'fleet'])
      expect(await send(pair.a, 'pre-reboot', as(user))).toMatchObject({
        status: 401,
        body: { kind: 'unauthenticated' },
      });
  });
});

test('what does not keep the protocol is refused by name, and nothing is done', async () => {
  await using pair = await startPair();
  const good = { client_params: { id: 'one', group: 'workers' } };
  const bad: [CallOptions, string][] = [
    [{ body: good, headers: {} }, 'fleet-lock-protocol'],
    [{ body: good, headers: { 'fleet-lock-protocol': 'yes' } }, 'fleet-lock-protocol'],
    [{ body: {} }, 'client_params'],
    [{ body: { client_params: { group: 'workers' } } }, 'id'],
    [{ body: { client_params: { id: '', group: 'workers' } } }, 'id'],
    [{ body: { client_params: { id: 'x'.repeat(201), group: 'workers' } } }, 'id'],
    [{ body: { client_params: { id: 'one', group: 'a/b' } } }, 'group'],
    [{ body: { client_params: { id: 'one', group: 'g'.repeat(191) } } }, 'group'],
  ];
  for (const what of ['pre-reboot', 'steady-state'])
    for (const [options, field] of bad) {
      const { status, body } = await send(pair.a, what, options);
      expect([status, body]).toMatchObject([422, { code: 'invalid', kind: 'invalid', outcome: 'not-applied' }]);
      expect((body as { field: string }).field).toContain(field);
    }
  expect(await isFree(pair.b, 'fleetlock.workers')).toBe(true);
  // What other versions of the protocol may add is no mistake.
  expect((await send(pair.a, 'pre-reboot', { body: { ...good, version: 2 } })).status).toBe(200);
});
