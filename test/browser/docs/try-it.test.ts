/** Requests that a reader runs in the page, at a real gateway. */
import type { Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { violationsOf } from '../chromium.js';
import { startBrowser, type Tab, type TestBrowser } from './browser.js';

let browser: TestBrowser;
let replica: Replica;
let tab: Tab;
beforeAll(async () => (browser = await startBrowser()));
afterAll(() => browser[Symbol.asyncDispose]());
beforeEach(async () => {
  replica = await startReplica();
  tab = await browser.open(replica.url);
});
afterEach(async () => {
  await tab[Symbol.asyncDispose]();
  await replica[Symbol.asyncDispose]();
});

const card = (page: Page, id: string): Locator => page.locator(`article[id="${id}"] .try`).first();
const press = (page: Page, id: string, name: string): Promise<void> =>
  card(page, id).getByRole('button', { name, exact: true }).click();
const line = async (page: Page, id: string): Promise<string> =>
  (await card(page, id).locator('code').textContent()) ?? '';
const outcome = (page: Page, id: string): Locator => card(page, id).locator('.result strong');

async function run(page: Page, id: string): Promise<string> {
  await press(page, id, 'Run');
  await outcome(page, id).waitFor();
  await card(page, id).getByRole('button', { name: 'Run', exact: true }).waitFor();
  return (await card(page, id).locator('.result').innerText()).replaceAll('\u00a0', ' ');
}

it('takes a lease and a lock with it, shows the token in the lines, and releases what was acquired', async () => {
  const { page } = tab;
  await page.goto(`${replica.url}/docs/locks`);
  expect(await line(page, 'acquireLock')).toContain(`curl -X POST ${replica.url}/v1/locks/backup/acquire`);
  expect(await line(page, 'acquireLock')).toContain('-H "Lease-Token: $TOKEN"');
  await press(page, 'acquireLock', 'Run');
  await card(page, 'acquireLock').getByRole('button', { name: 'Take a lease and run it' }).click();
  await eventually('it is held', async () => (await outcome(page, 'acquireLock').textContent())?.startsWith('200'));
  const { body } = await replica.call('GET', '/v1/locks/backup');
  expect(body).toMatchObject({ holderCount: 1, holders: [{ label: 'docs' }] });

  const token = /Lease-Token: ([^"]+)"/.exec(await line(page, 'releaseLock'))?.[1] ?? '';
  expect((await replica.call('GET', '/v1/leases/self', { leaseToken: token })).status).toBe(200);
  const shown = await run(page, 'showLock');
  expect(shown).toMatch(/200.*after \d+ ms/);
  expect(shown).toMatch(/content-type\s+application\/json[^]*etag\s+"[^]*trace-id\s+\w+[^]*"label": "docs"/);
  expect(await run(page, 'releaseLock')).toContain('204');
  expect((await replica.call('GET', '/v1/locks/backup')).body).toMatchObject({ holderCount: 0 });
  expect(await violationsOf(page)).toEqual([]);
  expect(tab.complaints).toEqual([]);
});

it('keeps its lease from page to page, and forgets it when it ends it', async () => {
  const { page } = tab;
  await page.goto(`${replica.url}/docs/leases`);
  expect(await run(page, 'createLease')).toContain('201');
  const text = await page.locator('#session p').textContent();
  const leaseId = /lease (\w+),/.exec(text ?? '')?.[1] ?? 'none';
  await page.goto(`${replica.url}/docs/elections`);
  await page.locator('#session', { hasText: leaseId }).waitFor();
  await page.getByRole('button', { name: 'End the lease' }).click();
  await page.getByRole('button', { name: 'Take a lease' }).waitFor();
  expect(await line(page, 'campaign')).toContain('$TOKEN');
  await eventually('it has ended', async () => (await replica.call('GET', `/v1/leases/${leaseId}`)).status === 404);
  expect(tab.complaints).toEqual([]);
});

it('forgets a lease that was ended elsewhere as soon as it hears of that', async () => {
  const { page } = tab;
  await page.goto(`${replica.url}/docs/elections`);
  await page.getByRole('button', { name: 'Take a lease' }).click();
  await page.getByRole('button', { name: 'End the lease' }).waitFor();
  const leaseToken = /Lease-Token: ([^"]+)"/.exec(await line(page, 'campaign'))?.[1] ?? '';
  expect((await replica.call('DELETE', '/v1/leases/self', { leaseToken })).status).toBe(204);
  expect(await run(page, 'campaign')).toContain('410');
  expect(await line(page, 'campaign')).toContain('$TOKEN');
});

it('asks before it removes anything, and does not if the answer is no', async () => {
  const { page } = tab;
  await replica.call('PUT', '/v1/counters/visits', { body: { value: 7 } });
  await page.goto(`${replica.url}/docs/counters`);
  const asked: string[] = [];
  let answer = false;
  page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    void (answer ? dialog.accept() : dialog.dismiss());
  });
  await press(page, 'deleteCounter', 'Run');
  await eventually('it has asked', () => asked.length === 1);
  expect(asked[0]).toContain('DELETE /v1/counters/visits');
  expect((await replica.call('GET', '/v1/counters/visits')).body).toMatchObject({ value: 7 });
  answer = true;
  expect(await run(page, 'deleteCounter')).toContain('204');
  expect(asked).toHaveLength(2);
});

it('runs what was edited, and shows whatever comes as text', async () => {
  const { page } = tab;
  const markup = '<img src=x onerror="document.title = 1"><b>bold</b>';
  await page.goto(`${replica.url}/docs/configuration`);
  await press(page, 'putConfig', 'Edit');
  await card(page, 'putConfig').getByLabel('Path').fill('/v1/config/evil');
  await card(page, 'putConfig').getByLabel('Body').fill(markup);
  expect(await line(page, 'putConfig')).toContain('/v1/config/evil');
  expect(await run(page, 'putConfig')).toMatch(/20[01]/);
  await press(page, 'showConfig', 'Edit');
  await card(page, 'showConfig').getByLabel('Path').fill('/v1/config/evil');
  expect(await run(page, 'showConfig')).toContain(markup);
  expect(await card(page, 'showConfig').locator('.result :is(img, b)').count()).toBe(0);
  expect(tab.complaints).toEqual([]);
});

it('shows a stream as it comes, until it is stopped', async () => {
  const { page } = tab;
  await page.goto(`${replica.url}/docs/counters`);
  await press(page, 'watchCounter', 'Run');
  const text = (): Promise<string | null> => card(page, 'watchCounter').locator('pre').last().textContent();
  await eventually('the state is shown', async () => (await text())?.includes('event: state'));
  await replica.call('POST', '/v1/counters/visits/add', { body: { by: 42 } });
  await eventually('the change is shown', async () => (await text())?.includes('"value":42'));
  await press(page, 'watchCounter', 'Stop');
  await card(page, 'watchCounter').getByText('Stopped.').waitFor();
});

it('at a gateway with credentials it says so, takes an API key, and keeps it nowhere', async () => {
  await using keys = await makeApiKeys({ reader: { default: { lock: ['read'] } } });
  await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using other = await browser.open(guarded.url);
  const { page } = other;
  const { key } = keys.as('reader', guarded.url);
  await page.goto(`${guarded.url}/docs/locks`);
  expect(await page.getByLabel('API key').isVisible()).toBe(false);
  expect(await run(page, 'showLock')).toMatch(/401[^]*asks for credentials/);
  await page.getByRole('button', { name: 'Give an API key' }).click();
  await page.keyboard.type(key);
  await page.keyboard.press('Enter');
  expect(await line(page, 'showLock')).toContain('-H "Authorization: Bearer $POSTERN_API_KEY"');
  expect(await run(page, 'showLock')).toContain('200');
  page.on('dialog', (dialog) => void dialog.accept());
  expect(await run(page, 'revokeLock')).toMatch(/403[^]*"code": "forbidden"/);
  const kept = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));
  expect(kept).not.toContain(key);
  expect(await page.content()).not.toContain(key);
  await page.reload();
  expect(await run(page, 'showLock')).toContain('401');
  expect(other.complaints).toEqual([]);
});

it('can be used with a keyboard alone', async () => {
  const { page } = tab;
  await page.goto(`${replica.url}/docs/counters#showCounter`);
  const button = card(page, 'showCounter').getByRole('button', { name: 'Run', exact: true });
  await button.focus();
  await page.keyboard.press('Enter');
  await outcome(page, 'showCounter').waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  await page.keyboard.type('?limit=1');
  expect(await line(page, 'showCounter')).toContain('?limit=1');
});
