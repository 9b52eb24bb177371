/** Every view, on a wide screen and on a phone, in light and dark: what it shows, and that everybody can read it. */
import { join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { Console, NARROW, useBrowser, WIDE } from './browser.js';
import { MARKUP, setScene, type Scene } from './scene.js';

useBrowser();

let replica: Replica;
let scene: Scene;
beforeAll(async () => {
  replica = await startReplica();
  scene = await setScene(replica);
});
afterAll(async () => {
  await scene.end();
  await replica[Symbol.asyncDispose]();
});

const IMAGES = fileURLToPath(new URL('../../docs/images/', import.meta.url));
/** In the documentation, by view. */
const PICTURES = new Map([
  ['overview', 'console-overview.png'],
  ['lines/lock/backup', 'console-lock.png'],
]);

/** Where a view is, and what is to be read there. */
const views = (): (readonly [at: string, ...texts: string[]])[] => [
  ['overview', 'Waiting now', 'Most contended', 'backup'],
  ['lines', 'backup', 'nightly-backup', 'catalogue', 'exports', 'scheduler'],
  ['lines/lock/backup', 'Fencing token', 'deploy', 'report', '<img src=x onerror'],
  ['lines/rwlock/catalogue', 'read'],
  ['lines/semaphore/exports', 'Permits held'],
  ['lines/election/scheduler', 'db-1:8080', 'preference 5'],
  ['leases', 'nightly-backup', 'deploy'],
  [`leases/lease/${scene.nightly.leaseId}`, 'db-1', 'catalogue', 'exports'],
  ['queues', 'orders', 'orders-dead'],
  ['queues/queue/orders', 'available', MARKUP],
  ['config', 'app/feature-flags'],
  ['config/config/app%2Ffeature-flags', 'Show value'],
  ['groups/group/workers', 'db-1', '{"zone":"a"}', 'Last messages', '{"reload":"rates"}'],
  ['barriers', 'release', 'shuffle'],
  ['barriers/barrier/release', 'raised', 'Lift'],
  ['barriers/double-barrier/shuffle', 'waits'],
  ['counters/counter/orders', '41,712'],
  ['pools', 'phones'],
  ['pools/pool/phones', 'iphone-3', 'draining', 'nightly-backup', 'pixel-8', 'free', 'Undrain', 'Delete'],
  ['runs', 'report', 'running'],
  ['runs/run/report', 'failed', '2026-01-02', '2026-01-03', 'nightly-backup', '1 of 1', MARKUP, 'Forget'],
  ['schedules', 'new-year', 'active'],
  [
    'schedules/schedule/new-year',
    '0 3 1 1 *',
    'Europe/Berlin',
    'reports',
    '-01-01T02:00:00.000Z',
    'made up for',
    MARKUP,
  ],
  ['transactions', 'open'],
  [`transactions/transaction/${scene.transactionId}`, 'billing', 'has not voted'],
  ['contention', 'backup', 'Waiting'],
];

describe.each([
  ['wide', WIDE, ['light', 'dark']],
  ['narrow', NARROW, ['dark']],
] as const)('on a %s screen', (_width, size, schemes) => {
  it('every view shows what there is, and axe finds nothing in it', { timeout: scaled(90_000) }, async () => {
    await using tab = await Console.open(replica.url, { size });
    await tab.untilLive();
    const findings: string[] = [];
    for (const [at, ...texts] of views()) {
      await tab.go(at);
      const main = tab.page.locator('main');
      for (const text of texts)
        await main.getByText(text, { exact: false }).filter({ visible: true }).first().waitFor();
      for (const [index, scheme] of schemes.entries()) {
        await tab.page.emulateMedia({ colorScheme: scheme });
        const found = await tab.findings(index === 0 ? 'everything' : 'colours');
        for (const finding of found) findings.push(`${at} in ${scheme}: ${finding}`);
      }
      if (await tab.isTooWide()) findings.push(`${at}: wider than the screen`);
    }
    expect(findings).toEqual([]);
    expect(await tab.page.title()).toBe('Contention · Postern console');
  });
});

it('shows values with markup as text', async () => {
  await using tab = await Console.open(replica.url, { at: 'config/config/app%2Ffeature-flags' });
  await tab.page.getByRole('button', { name: 'Show value' }).click();
  await tab.page.getByText(MARKUP).waitFor();
  await tab.go('queues/queue/orders');
  await tab.page.getByText(MARKUP).waitFor();
  expect(await tab.page.locator('main img, main script').count()).toBe(0);
  expect(await tab.page.title()).toBe('Queues · Postern console');
});

it('leaves room on a phone for what is below the longest name', async () => {
  const key = Array.from({ length: 5 }, () => 'k'.repeat(190)).join('/');
  await replica.expect(201, 'PUT', `/v1/config/${key}`, { body: 'v', headers: { 'content-type': 'text/plain' } });
  await using tab = await Console.open(replica.url, { at: `config/config/${encodeURIComponent(key)}`, size: NARROW });
  await tab.page.getByRole('button', { name: 'Show value' }).click();
  await tab.page.getByRole('button', { name: 'Delete…' }).click();
  await tab.page.getByRole('dialog').getByRole('button', { name: 'Delete key' }).click();
  await tab.page.getByText('There is no such key.').waitFor();
});

it('does not read the value of a key before it is asked for', async () => {
  await using tab = await Console.open(replica.url, { at: 'config/config/app%2Ffeature-flags' });
  await tab.page.getByText('ETag').waitFor();
  expect(tab.requests.filter((each) => each.includes('/v1/config'))).toEqual([]);
  await tab.page.getByRole('button', { name: 'Show value' }).click();
  await tab.page.getByText(MARKUP).waitFor();
  expect(tab.requests.filter((each) => each.includes('/v1/config'))).toEqual(['GET /v1/config/app/feature-flags']);
});

it('says so where there is nothing, in another namespace too', async () => {
  await using tab = await Console.open(replica.url, { at: 'lines' });
  await tab.page.getByText('nightly-backup').first().waitFor();
  const chooser = tab.page.getByLabel('Namespace');
  await chooser.fill('elsewhere');
  await chooser.press('Enter');
  await tab.page.getByText('Nobody holds a lock').waitFor();
  expect(tab.page.url()).toMatch(/#\/elsewhere\/lines$/);
  expect(await tab.findings()).toEqual([]);
});

it('narrows a list by what is typed, and sorts it by a column', async () => {
  await using tab = await Console.open(replica.url, { at: 'lines' });
  await tab.page.getByText('nightly-backup').first().waitFor();
  await tab.page.getByRole('searchbox').fill('deploy');
  await tab.page.getByText('4 of 8').waitFor();
  await tab.page.getByRole('button', { name: 'Name' }).click();
  const names = tab.page.locator('.list-body .name');
  expect(await names.allTextContents()).toEqual(['invoices', 'migrations', 'search-index', 'thumbnails']);
  await tab.page.getByRole('button', { name: 'Name' }).click();
  expect(await names.first().textContent()).toBe('thumbnails');
  await tab.page.getByRole('searchbox').fill('no such');
  await tab.page.getByText('None of 8 lines contains').waitFor();
});

it('finds what is typed, whatever its case, also while things come and go, and shows all again after Escape', async () => {
  await using tab = await Console.open(replica.url, { at: 'counters' });
  await replica.expect(200, 'POST', '/v1/counters/Search-one/add', { body: { by: 1 } });
  await tab.page.locator('.list').getByText('Search-one').waitFor();
  const box = tab.page.getByRole('searchbox', { name: 'Filter name' });
  await box.focus();
  await tab.page.keyboard.type(' SEARCH-');
  await tab.page.getByText('1 of 2').waitFor();
  await replica.expect(200, 'POST', '/v1/counters/other/add', { body: { by: 1 } });
  await replica.expect(200, 'POST', '/v1/counters/search-two/add', { body: { by: 1 } });
  await tab.page.getByText('2 of 4').waitFor();
  const names = tab.page.locator('.list-body .name');
  expect(await names.allTextContents()).toEqual(['Search-one', 'search-two']);
  for (const name of ['Search-one', 'search-two', 'other']) await replica.expect(204, 'DELETE', `/v1/counters/${name}`);
  await tab.page.getByText('None of 1 counters contains').waitFor();
  expect(await tab.findings()).toEqual([]);
  await tab.page.keyboard.press('Escape');
  await tab.page.locator('.list').getByText('orders').waitFor();
  expect(await box.inputValue()).toBe('');
});

it('shows each change at once, without being loaded again', async () => {
  await using tab = await Console.open(replica.url, { at: 'counters/counter/orders' });
  await tab.page.locator('.panel').getByText('41,712').waitFor();
  await replica.expect(200, 'POST', '/v1/counters/orders/add', { body: { by: 1 } });
  await tab.page.locator('.panel').getByText('41,713').waitFor();
  await replica.expect(200, 'POST', '/v1/counters/orders/add', { body: { by: -1 } });
  expect(tab.requests.filter((each) => each === 'GET /v1/events')).toHaveLength(1);
});

it.runIf(env['UPDATE_IMAGES'] !== undefined)('makes the pictures of the documentation', async () => {
  await using tab = await Console.open(replica.url);
  await tab.page.waitForFunction(() => document.querySelector('.tile-value')?.textContent === '2');
  // The plot needs a few seconds to have a shape.
  await tab.page.waitForFunction((start) => Date.now() - start > 8_000, Date.now());
  for (const [at, picture] of PICTURES) {
    await tab.go(at);
    await tab.page.locator('main').getByText('backup').first().waitFor();
    await tab.page.mouse.click(640, 780);
    await tab.page.screenshot({ path: join(IMAGES, picture) });
  }
});
