/** Something of every kind in a namespace: what the views show. */
import type { Client, LeaseHandle } from '../support/http/client.js';

export const MARKUP = '<img src=x onerror="document.title=1"><script>document.title=2</script>';

const WAIT_MS = 20_000;

export interface Scene {
  readonly nightly: LeaseHandle;
  readonly deploy: LeaseHandle;
  readonly transactionId: string;
  /** Ends the waits. */
  end(): Promise<void>;
}

export async function setScene(client: Client): Promise<Scene> {
  const left = new AbortController();
  const [nightly, deploy, waiter] = await Promise.all([
    client.createLease({ ttlMs: 250_000, label: 'nightly-backup', metadata: { host: 'db-1' } }),
    client.createLease({ ttlMs: 250_000, label: 'deploy', metadata: { note: MARKUP } }),
    client.createLease({ ttlMs: 250_000, label: 'report' }),
  ]);
  const { leaseToken } = nightly;
  await client.hold('backup', nightly, { data: { step: 'dump', note: MARKUP } });
  for (const name of ['invoices', 'migrations', 'search-index', 'thumbnails']) await client.hold(name, deploy);
  await client.expect(200, 'POST', '/v1/rwlocks/catalogue/acquire', { body: { mode: 'read' }, leaseToken });
  await client.expect(200, 'POST', '/v1/semaphores/exports/acquire', { body: { limit: 3 }, leaseToken });
  await client.expect(200, 'POST', '/v1/elections/scheduler/campaign', { body: { value: 'db-1:8080' }, leaseToken });
  await client.expect(202, 'POST', '/v1/elections/scheduler/campaign', {
    body: { value: 'db-2:8080', preference: 5, keepPlace: true },
    leaseToken: deploy.leaseToken,
  });
  await client.expect([200, 201], 'PUT', '/v1/groups/workers/members/db-1', {
    body: { value: { zone: 'a' } },
    leaseToken,
  });
  await client.expect(201, 'POST', '/v1/groups/workers/messages', { body: { body: { reload: 'rates' } } });
  await client.expect(201, 'PUT', '/v1/barriers/release');
  await client.expect(202, 'POST', '/v1/double-barriers/shuffle/enter', { body: { size: 2, waitMs: 0 }, leaseToken });
  await client.expect(200, 'POST', '/v1/counters/orders/add', { body: { by: 41_712 } });
  await client.expect(201, 'PUT', '/v1/config/app/feature-flags', {
    body: MARKUP,
    headers: { 'content-type': 'text/plain' },
  });
  await putPhones(client, 201, false);
  await client.expect(200, 'POST', '/v1/pools/phones/acquire', { body: {}, leaseToken });
  await putPhones(client, 200, true);
  await runReport(client, leaseToken);
  await client.expect(201, 'PUT', '/v1/schedules/new-year', {
    body: { cron: '0 3 1 1 *', timeZone: 'Europe/Berlin', to: { queue: 'reports', body: MARKUP }, misfire: 'once' },
  });
  await pushTo(client, 'orders');
  await pushTo(client, 'orders-dead');
  const { transactionId } = (await client.expect(201, 'POST', '/v1/transactions', {
    body: { participants: ['orders', 'billing'], deadlineMs: 600_000 },
  })) as { transactionId: string };
  const waits = [deploy, waiter].map((lease) => waitFor(client, lease, left.signal));
  await client.untilWaiting('backup', 2);
  return {
    nightly,
    deploy,
    transactionId,
    async end() {
      left.abort();
      await Promise.all(waits);
    },
  };
}

/** Until the scene ends, in one place in line, however long a request may wait. */
async function waitFor(client: Client, lease: LeaseHandle, signal: AbortSignal): Promise<void> {
  const body = { waitMs: WAIT_MS, keepPlace: true, requestId: 'scene' };
  while (!signal.aborted) await client.acquire('backup', lease, body, { signal }).catch(() => undefined);
}

/** A member that drains and one that is free. */
async function putPhones(client: Client, status: number, drain: boolean): Promise<void> {
  const members = [{ id: 'iphone-3', drain }, { id: 'pixel-8' }];
  await client.expect(status, 'PUT', '/v1/pools/phones', { body: { members } });
}

/** One occurrence is done, one has failed, one runs. */
async function runReport(client: Client, leaseToken: string): Promise<void> {
  const occurrences = { '2026-01-01': 'done', '2026-01-02': 'failed', '2026-01-03': undefined } as const;
  for (const [occurrence, outcome] of Object.entries(occurrences)) {
    const asked = { leaseToken, body: { occurrence, maxAttempts: 1 } };
    const { fencingToken } = await client.expect(200, 'POST', '/v1/runs/report/start', asked);
    const body = { occurrence, outcome, fencingToken, note: MARKUP };
    if (outcome !== undefined) await client.expect(200, 'POST', '/v1/runs/report/finish', { leaseToken, body });
  }
}

async function pushTo(client: Client, queue: string): Promise<void> {
  const messages = [{ body: { order: 4711 } }, { body: MARKUP }];
  await client.expect(201, 'POST', `/v1/queues/${queue}/messages`, { body: { messages } });
}
