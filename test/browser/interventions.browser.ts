/** Every button that changes something for others: asks first, says what happens to whom, and does it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, NARROW, useBrowser } from './browser.js';
import { setScene, type Scene } from './scene.js';

useBrowser();

let keys: ApiKeys;
let replica: Replica;
let admin: KeyedClient;
let reader: KeyedClient;
let scene: Scene;
beforeAll(async () => {
  keys = await makeApiKeys({ admin: '*', reader: { default: ['read'] } });
  replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  [admin, reader] = [keys.as('admin', replica.url), keys.as('reader', replica.url)];
  scene = await setScene(admin);
});
afterAll(async () => {
  await scene.end();
  await Promise.all([admin, reader].map((client) => client[Symbol.asyncDispose]()));
  await replica[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

interface Case {
  readonly what: string;
  readonly at: () => string;
  readonly button: string;
  readonly confirm: string;
  /** What the dialog says. */
  readonly said: readonly string[];
  readonly fields?: Readonly<Record<string, string>>;
  readonly check?: string;
  /** Whether it was done. */
  readonly isDone: () => Promise<boolean>;
}

async function statusOf(path: string): Promise<number> {
  return (await admin.call('GET', path)).status;
}

const CASES: readonly Case[] = [
  {
    what: 'revokes a hold with grace and reason',
    at: () => 'lines/lock/backup',
    button: 'Revoke…',
    confirm: 'Revoke',
    said: ['nightly-backup', 'After 10 m', '2 waiters'],
    // It outlives this file: what the lease holds is looked at last.
    fields: { 'Grace, in seconds': '600', Reason: 'maintenance' },
    isDone: async () => {
      const { body } = await admin.heartbeat(scene.nightly);
      return (body as { revocations: { reason?: string }[] }).revocations[0]?.reason === 'maintenance';
    },
  },
  {
    what: 'redrives a queue',
    at: () => 'queues/queue/orders-dead',
    button: 'Redrive…',
    confirm: 'Redrive',
    said: ['2 messages', 'orders-dead'],
    fields: { 'To the queue': 'orders' },
    isDone: async () => ((await admin.expect(200, 'GET', '/v1/queues/orders')) as { depth: number }).depth === 4,
  },
  {
    what: 'purges a queue',
    at: () => 'queues/queue/orders',
    button: 'Purge…',
    confirm: 'Purge',
    said: ['4 messages', 'removed for good'],
    isDone: async () => ((await admin.expect(200, 'GET', '/v1/queues/orders')) as { depth: number }).depth === 0,
  },
  {
    what: 'deletes a queue',
    at: () => 'queues/queue/orders-dead',
    button: 'Delete…',
    confirm: 'Delete queue',
    said: ['orders-dead', 'refused if there are messages'],
    check: 'Even if it has messages',
    isDone: async () => (await statusOf('/v1/queues/orders-dead')) === 404,
  },
  {
    what: 'lifts a barrier',
    at: () => 'barriers/barrier/release',
    button: 'Lift…',
    confirm: 'Lift barrier',
    said: ['Everybody who waits', 'release'],
    isDone: async () => !((await admin.expect(200, 'GET', '/v1/barriers/release')) as { raised: boolean }).raised,
  },
  {
    what: 'deletes a key',
    at: () => 'config/config/app%2Ffeature-flags',
    button: 'Delete…',
    confirm: 'Delete key',
    said: ['app/feature-flags'],
    isDone: async () => (await statusOf('/v1/config/app/feature-flags')) === 404,
  },
  {
    what: 'deletes a counter',
    at: () => 'counters/counter/orders',
    button: 'Delete…',
    confirm: 'Delete counter',
    said: ['41,712'],
    isDone: async () => ((await admin.expect(200, 'GET', '/v1/counters/orders')) as { value: number }).value === 0,
  },
  {
    what: 'forgets an occurrence of a run',
    at: () => 'runs/run/report',
    button: 'Forget…',
    confirm: 'Forget occurrence',
    said: ['2026-01-02', 'attempt 1'],
    isDone: async () => {
      const shown = (await admin.expect(200, 'GET', '/v1/runs/report')) as { occurrences: { occurrence: string }[] };
      return shown.occurrences.every(({ occurrence }) => occurrence !== '2026-01-02');
    },
  },
  {
    what: 'lets a member of a pool be given again',
    at: () => 'pools/pool/phones',
    button: 'Undrain…',
    confirm: 'Undrain member',
    said: ['iphone-3', 'phones'],
    isDone: async () => {
      const shown = (await admin.expect(200, 'GET', '/v1/pools/phones')) as { members: { drain?: boolean }[] };
      return shown.members.every(({ drain }) => drain !== true);
    },
  },
  {
    what: 'pauses a schedule',
    at: () => 'schedules/schedule/new-year',
    button: 'Pause…',
    confirm: 'Pause schedule',
    said: ['nothing more is pushed', 'reports'],
    isDone: async () => {
      const shown = (await admin.expect(200, 'GET', '/v1/schedules/new-year')) as { paused: boolean; misfire: string };
      return shown.paused && shown.misfire === 'once';
    },
  },
  {
    what: 'deletes a schedule',
    at: () => 'schedules/schedule/new-year',
    button: 'Delete…',
    confirm: 'Delete schedule',
    said: ['new-year', 'Messages that were pushed stay there'],
    isDone: async () => (await statusOf('/v1/schedules/new-year')) === 404,
  },
  {
    what: 'aborts a transaction',
    at: () => `transactions/transaction/${scene.transactionId}`,
    button: 'Abort…',
    confirm: 'Abort transaction',
    said: ['2 participants'],
    isDone: async () => {
      const shown = (await admin.expect(200, 'GET', `/v1/transactions/${scene.transactionId}`)) as { state: string };
      return shown.state === 'aborted';
    },
  },
  {
    what: 'ends a lease',
    at: () => `leases/lease/${scene.nightly.leaseId}`,
    button: 'End lease…',
    confirm: 'End lease',
    said: ['nightly-backup', 'lock backup'],
    isDone: async () => (await statusOf(`/v1/leases/${scene.nightly.leaseId}`)) === 404,
  },
];

// Before the others: they leave nothing to be refused.
it.each(CASES.filter(({ what }) => what !== 'ends a lease'))(
  '$what: a key without the scope is told which one is missing',
  async ({ at, button, confirm, fields = {} }) => {
    await using tab = await Console.open(replica.url, { key: reader.key, at: at() });
    const asks = tab.page.getByRole('button', { name: button }).first();
    await asks.click();
    const dialog = tab.page.getByRole('dialog');
    for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
    await dialog.getByRole('button', { name: confirm, exact: true }).click();
    await dialog.getByText(/This key lacks the scope “(admin|use)” on /).waitFor();
    expect(await dialog.getByRole('button', { name: confirm, exact: true }).isDisabled()).toBe(true);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await eventually('the button is disabled', () => asks.isDisabled());
    await tab.page
      .locator('main')
      .getByText(/This key lacks the scope/)
      .first()
      .waitFor();
    expect(await tab.findings()).toEqual([]);
  },
);

it.each(CASES)('$what, after it was confirmed', async ({ at, button, confirm, said, fields = {}, check, isDone }) => {
  await using tab = await Console.open(replica.url, { key: admin.key, at: at(), size: NARROW });
  const asks = tab.page.getByRole('button', { name: button }).first();
  await asks.click();
  const dialog = tab.page.getByRole('dialog');
  // Again before the browser has told that the dialog was closed, as somebody may who lives by the keyboard.
  await dialog.getByRole('button', { name: 'Cancel' }).evaluate(async (cancel: HTMLElement) => {
    cancel.click();
    await new Promise<void>(queueMicrotask);
    (document.activeElement as HTMLElement).click();
    await new Promise((resolve) => setTimeout(resolve));
  });
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  const writes = (): string[] => tab.requests.filter((each) => !each.startsWith('GET'));
  expect(writes()).toEqual([]);

  await asks.click();
  for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
  for (const text of said) await dialog.getByText(text).first().waitFor();
  expect(await tab.findings()).toEqual([]);
  if (check !== undefined) await dialog.getByLabel(check).check();
  expect(await tab.isTooWide()).toBe(false);
  await dialog.getByRole('button', { name: confirm, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await eventually('it is done', isDone);
  expect(writes()).toHaveLength(1);
  await tab.page.locator('.notice p').waitFor();
});

it('shows leases to administrators alone', async () => {
  await using tab = await Console.open(replica.url, { key: reader.key, at: `leases/lease/${scene.deploy.leaseId}` });
  await tab.page.getByText('It lacks the scope “admin” on the lease').waitFor();
  expect(await tab.page.getByRole('button', { name: 'End lease…' }).count()).toBe(0);
});

it('says why the gateway refuses, and lets it be tried again', async () => {
  await admin.expect(201, 'PUT', '/v1/queues/full', { body: { order: 'fifo' } });
  await admin.expect(201, 'POST', '/v1/queues/full/messages', { body: { messages: [{ body: 1 }] } });
  await using tab = await Console.open(replica.url, { key: admin.key, at: 'queues/queue/full' });
  await tab.page.getByRole('button', { name: 'Delete…' }).click();
  const dialog = tab.page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Delete queue' }).click();
  await dialog.getByRole('alert').getByText('message').waitFor();
  await dialog.getByLabel('Even if it has messages').check();
  await dialog.getByRole('button', { name: 'Delete queue' }).click();
  await tab.page.getByText('There is no such queue').waitFor();
});
