/** Leaders that are asked to resign, and deposed; and holders that nobody can ask. */
import { expect, test } from 'vitest';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { scaled } from '../../../support/timing.js';
import { campaign, electionOf, speak } from '../client.js';

const TTL_MS = 20_000;

function revoke(replica: Replica, kind: string, name: string, body: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('POST', `/v1/${kind}/${name}/revoke`, { body });
}

async function newsOf(replica: Replica, lease: LeaseHandle): Promise<Record<string, unknown>> {
  return (await replica.heartbeat(lease)).body as Record<string, unknown>;
}

/** What is in the line of an election or a lock. */
async function nodes({ a }: Pair, kind: 'lock' | 'election', name: string): Promise<string[]> {
  const { control, layout } = a.gateway.context;
  const directory = layout.line(kind, 'default', name);
  await control.sync(directory);
  return (await control.getChildren(directory)).children;
}

test('a leader is asked, and deposed when the grace period has passed: the next one leads, and it may stand again behind it', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second] = [await a.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  const { candidateId } = (await campaign(a, 'crown', first)).body as { candidateId: string };
  const next = campaign(b, 'crown', second, { waitMs: 20_000 });
  await eventually('two stand', async () => (await electionOf(a, 'crown')).candidateCount === 2);

  expect((await revoke(b, 'elections', 'crown', { reason: 'please' })).body).toEqual({
    holds: [{ holdId: candidateId }],
  });
  expect(await newsOf(b, first)).toMatchObject({
    revocations: [{ kind: 'election', name: 'crown', holdId: candidateId, reason: 'please' }],
    lost: [],
  });
  expect((await electionOf(b, 'crown')).leader).toMatchObject({ leaseId: first.leaseId });

  await revoke(a, 'elections', 'crown', { graceMs: scaled(300) });
  expect((await next).body).toMatchObject({ elected: true });
  expect(await newsOf(b, first)).toMatchObject({
    revocations: [],
    lost: [{ kind: 'election', name: 'crown', holdId: candidateId, reason: 'broken' }],
  });
  const revocations = (replica: Replica, outcome: string): Promise<number> =>
    replica.metric('postern_revocations_total', { kind: 'election', outcome });
  expect([await revocations(a, 'asked'), await revocations(b, 'asked')]).toEqual([1, 1]);
  await eventually(
    'it is counted once by the one that broke it',
    async () => (await revocations(a, 'broken')) + (await revocations(b, 'broken')) === 1,
  );
  expect((await speak(a, 'crown', 'acknowledge', first)).body).toMatchObject({ code: 'not-holder' });
  // Each candidate is two nodes, and both have gone.
  expect(await nodes(pair, 'election', 'crown')).toHaveLength(2);
  expect((await campaign(b, 'crown', first)).body).toMatchObject({ elected: false, position: 1 });
});

test('a leader that was never told that it leads is deposed all the same', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second] = [await a.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await campaign(a, 'silent', first);
  expect((await campaign(b, 'silent', second)).status).toBe(202);
  await speak(a, 'silent', 'resign', first);
  expect((await electionOf(a, 'silent')).leader).toMatchObject({ leaseId: second.leaseId, acknowledged: false });
  expect((await revoke(b, 'elections', 'silent', { graceMs: 0 })).status).toBe(200);
  expect((await electionOf(a, 'silent')).leader).toBeNull();
  expect((await revoke(a, 'elections', 'silent', { graceMs: 0 })).body).toMatchObject({
    status: 409,
    code: 'not-holder',
  });
});

test('who cannot be asked is named in a 409, and nothing is written: a node of no session, and a leader that is no Postern', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const { control, layout } = a.gateway.context;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  for (const [kind, path, prefix, mode] of [
    ['lock', 'locks', 'lock-', 'persistent-sequential'],
    ['election', 'elections', 'latch-', 'ephemeral-sequential'],
  ] as const) {
    await a.call('POST', `/v1/${path}/left/${kind === 'lock' ? 'acquire' : 'campaign'}`, {
      leaseToken: lease.leaseToken,
    });
    await a.call('POST', `/v1/${path}/left/${kind === 'lock' ? 'release' : 'resign'}`, {
      leaseToken: lease.leaseToken,
    });
    const prefixed = `${layout.line(kind, 'default', 'left')}/_c_11111111-2222-3333-4444-555555555555-${prefix}`;
    const { path: node } = await control.create(prefixed, Buffer.from('theirs'), { mode });
    const { status, body } = await revoke(b, path, 'left', { graceMs: 0 });
    expect([status, body]).toMatchObject([409, { code: 'conflict', name: 'left', holder: { external: true } }]);
    expect(body.detail).toContain(node);
    expect((await control.getData(node)).data.toString()).toBe('theirs');
  }
});
