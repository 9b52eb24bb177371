/**
 * Every administrative act leaves one line that says who did what to what and how it ended, and so does every refused
 * one.
 */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { openApi } from '../../../src/http/contract/openapi.js';
import { makeApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import { runLog } from '../../support/run-log.js';
import { Witness } from '../../support/scene.js';
import { startPair } from '../../support/start-gateway.js';

/** An operation that needs the scope `admin`, as it is asked for, and what the line says of it beside who and when. */
interface Act {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  body?: unknown;
  says: Record<string, unknown>;
}

/** What stands in a body or a query, not in a path. */
const ASKED_MEMBERS = ['candidateId', 'graceMs', 'reason', 'to', 'force', 'occurrence', 'node', 'version'];

/** The lines of all kinds, and what somebody may have left in them. */
const LINES = { Lock: 'locks', ReadWriteLock: 'rwlocks', Semaphore: 'semaphores', Election: 'elections' };
const LEFT_OVER = 'left-lock-0000000000';

interface Prepared {
  leaseId: string;
  transactionId: string;
  candidateId: string;
  messageId: string;
}

/** By operation. */
function actsOn({ leaseId, transactionId, candidateId, messageId }: Prepared): Record<string, Act> {
  const asked = { reason: 'noon', graceMs: 60_000 };
  return {
    listLeases: { method: 'GET', path: '/v1/leases', says: { kind: 'lease' } },
    showLeaseById: { method: 'GET', path: `/v1/leases/${leaseId}`, says: { kind: 'lease', name: leaseId } },
    revokeLock: {
      method: 'POST',
      path: '/v1/locks/held/revoke',
      body: asked,
      says: { kind: 'lock', name: 'held', ...asked },
    },
    revokeReadWriteLock: {
      method: 'POST',
      path: '/v1/rwlocks/held/revoke',
      body: asked,
      says: { kind: 'rwlock', ...asked },
    },
    revokeSemaphore: {
      method: 'POST',
      path: '/v1/semaphores/held/revoke',
      body: asked,
      says: { kind: 'semaphore', ...asked },
    },
    revokeElection: {
      method: 'POST',
      path: '/v1/elections/held/revoke',
      body: asked,
      says: { kind: 'election', ...asked },
    },
    transferElection: transferTo({ candidateId, ...asked }),
    ...actsOnNodes(),
    abortTransaction: {
      method: 'POST',
      path: `/v1/transactions/${transactionId}/abort`,
      body: { reason: 'noon' },
      says: { kind: 'transaction', name: transactionId, reason: 'noon' },
    },
    ...actsOnQueues(messageId),
    forgetRun: {
      method: 'POST',
      path: '/v1/runs/report/forget',
      body: { occurrence: 'noon' },
      says: { kind: 'run', name: 'report', occurrence: 'noon' },
    },
    endLeaseById: {
      method: 'DELETE',
      path: `/v1/leases/${leaseId}`,
      says: { kind: 'lease', name: leaseId },
    },
  };
}

function transferTo(body: Record<string, unknown>): Act {
  return { method: 'POST', path: '/v1/elections/held/transfer', body, says: { kind: 'election', ...body } };
}

function actsOnQueues(messageId: string): Record<string, Act> {
  return {
    removeMessage: {
      method: 'DELETE',
      path: `/v1/queues/full/messages/${messageId}`,
      says: { kind: 'queue', name: 'full', id: messageId },
    },
    redriveQueue: {
      method: 'POST',
      path: '/v1/queues/dead/redrive',
      body: { to: 'full' },
      says: { name: 'dead', to: 'full' },
    },
    restoreMessages: {
      method: 'POST',
      path: '/v1/queues/full/restore',
      body: { messages: [{ id: 'x', body: 1 }] },
      says: { kind: 'queue', name: 'full' },
    },
    pauseQueue: { method: 'POST', path: '/v1/queues/full/pause', says: { kind: 'queue', name: 'full' } },
    resumeQueue: { method: 'POST', path: '/v1/queues/full/resume', says: { kind: 'queue', name: 'full' } },
    purgeQueue: { method: 'POST', path: '/v1/queues/full/purge', says: { kind: 'queue', name: 'full' } },
    deleteQueue: { method: 'DELETE', path: '/v1/queues/full?force=true', says: { name: 'full', force: true } },
  };
}

function actsOnNodes(): Record<string, Act> {
  const asked = { node: LEFT_OVER, version: 0, reason: 'noon' };
  return Object.fromEntries(
    Object.entries(LINES).flatMap(([kind, path]) => [
      [`list${kind}Nodes`, { method: 'GET', path: `/v1/${path}/left/nodes`, says: { name: 'left' } }],
      [
        `break${kind}`,
        { method: 'POST', path: `/v1/${path}/left/break`, body: asked, says: { name: 'left', ...asked } },
      ],
    ]),
  );
}

/** Does what the acts are about. */
async function prepare(ops: KeyedClient, worker: KeyedClient): Promise<Prepared> {
  const lease = await worker.createLease();
  for (const path of ['locks/held', 'rwlocks/held', 'semaphores/held']) {
    const body = { ...(path.startsWith('rw') && { mode: 'write' }), ...(path.startsWith('sem') && { limit: 1 }) };
    await worker.expect(200, 'POST', `/v1/${path}/acquire`, { body, leaseToken: lease.leaseToken });
  }
  const { candidateId } = (await worker.expect(200, 'POST', '/v1/elections/held/campaign', {
    body: {},
    leaseToken: lease.leaseToken,
  })) as { candidateId: string };
  const { transactionId } = (await ops.expect(201, 'POST', '/v1/transactions', {
    body: { participants: ['p'], deadlineMs: 60_000 },
  })) as { transactionId: string };
  const [messageId = ''] = await Promise.all(
    ['full', 'dead'].map(async (queue) => {
      const call = { body: { messages: [{ body: 1 }] } };
      const { items } = (await worker.expect(201, 'POST', `/v1/queues/${queue}/messages`, call)) as {
        items: { id: string }[];
      };
      return items[0]?.id ?? '';
    }),
  );

  const attempt = { body: { occurrence: 'noon' }, leaseToken: lease.leaseToken };
  const { fencingToken } = await worker.expect(200, 'POST', '/v1/runs/report/start', attempt);
  await worker.expect(200, 'POST', '/v1/runs/report/finish', {
    ...attempt,
    body: { ...attempt.body, outcome: 'done', fencingToken },
  });
  return { leaseId: lease.leaseId, transactionId, candidateId, messageId };
}

test('an administrative act is one line in the log, allowed or refused', async () => {
  await using keys = await makeApiKeys({ ops: '*', worker: { default: ['read', 'use'] } });
  // Whoever turns the log down does not mean these lines.
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file, POSTERN_LOG_LEVEL: 'warn' } });
  await using ops = keys.as('ops', pair.a.url);
  await using worker = keys.as('worker', pair.b.url);
  await using witness = await Witness.start(pair.root);
  for (const path of Object.values(LINES)) {
    const directory = `${witness.layout.namespace('default')}/${path}/left`;
    await witness.control.ensurePath(directory);
    await witness.control.create(`${directory}/${LEFT_OVER}`);
  }
  const acts = actsOn(await prepare(ops, worker));
  const administrative = openApi().operations.filter(({ source }) =>
    /Scope: [^.]*`admin`/.test(source.description ?? ''),
  );
  expect(Object.keys(acts).sort()).toEqual(administrative.map(({ operationId }) => operationId).sort());

  for (const [operation, { method, path, body, says }] of Object.entries(acts)) {
    const options = body === undefined ? {} : { body };
    // A coordinator aborts its own transaction without being an administrator: whose it is decides, so another one asks
    // here.
    const isOwn = operation === 'abortTransaction';
    const refused = await worker.call(method, path, options);
    expect([operation, refused.status]).toEqual([operation, 403]);
    const allowed = await ops.call(method, path, options);
    expect([operation, Math.floor(allowed.status / 100)]).toEqual([operation, 2]);
    const lines = runLog.lines().filter((line) => line['operation'] === operation);
    const common = { audit: true, msg: 'administrative act', level: 'info', namespace: 'default', operation, ...says };
    // Of what is refused for its scope the body and the query are not looked at; a transaction tells whether it is.
    const told = Object.fromEntries(Object.entries(common).filter(([member]) => !ASKED_MEMBERS.includes(member)));
    const refusal = {
      ...(isOwn ? common : told),
      principal: 'worker',
      keyId: 'worker',
      status: 403,
      outcome: 'forbidden',
      traceId: refused.headers['trace-id'],
    };
    const done = {
      ...common,
      principal: 'ops',
      keyId: 'ops',
      status: allowed.status,
      outcome: 'done',
      traceId: allowed.headers['trace-id'],
    };
    expect(lines).toEqual([refusal, ...(isOwn ? [] : [done])].map((line) => expect.objectContaining(line) as unknown));
  }
  const { transactionId } = (await worker.expect(201, 'POST', '/v1/transactions', {
    body: { participants: ['p'], deadlineMs: 60_000 },
  })) as { transactionId: string };
  await ops.expect(200, 'POST', `/v1/transactions/${transactionId}/abort`, { body: { reason: 'noon' } });
  const aborts = runLog.lines().filter(({ audit, name }) => audit === true && name === transactionId);
  expect(aborts).toMatchObject([{ operation: 'abortTransaction', principal: 'ops', reason: 'noon', outcome: 'done' }]);
  // What a coordinator does to its own transaction, and what takes no such scope, leaves none.
  await worker.createLease();
  expect(runLog.lines().filter(({ audit, operation }) => audit === true && operation === 'createLease')).toEqual([]);
});

test('a lease token, or an API key, in the wrong place is refused, and not written to the log', async () => {
  await using keys = await makeApiKeys({ ops: '*', reader: { default: ['read'] } });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using ops = keys.as('ops', pair.a.url);
  await using reader = keys.as('reader', pair.a.url);
  const { leaseToken } = await ops.createLease();
  const key = `postern_${randomBytes(32).toString('base64url')}`;
  runLog.keepOut(key);
  runLog.keepOut(leaseToken);
  for (const secret of [leaseToken, key]) {
    const path = `/v1/leases/${secret.slice(0, 190)}`; // as long as a name may be
    runLog.keepOut(secret.slice(0, 190));
    expect((await ops.call('DELETE', path)).status).toBe(422);
    expect((await ops.call('GET', `/v1/locks/${secret.slice(0, 190)}`)).status).toBe(200);
    expect((await reader.call('DELETE', path)).status).toBe(403);
    expect((await pair.a.call('DELETE', path)).status).toBe(401);
    await ops.call('POST', '/v1/locks/free/revoke', { body: { holdId: secret, reason: `with ${secret}` } });
  }
  const revocations = runLog.lines().filter(({ audit, operation }) => audit === true && operation === 'revokeLock');
  expect(revocations.map(({ reason }) => reason)).toEqual(['with lt1.…', 'with postern_…']);
});
