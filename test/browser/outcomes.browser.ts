/** What comes of a button when its dialog does not live to tell it; and whom a dialog names. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import type { LeaseHandle } from '../support/http/client.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, useBrowser } from './browser.js';

useBrowser();

let replica: Replica;
let lease: LeaseHandle;
beforeAll(async () => {
  replica = await startReplica();
});
afterAll(() => replica[Symbol.asyncDispose]());
beforeEach(async () => {
  lease = await replica.createLease({ ttlMs: 60_000, label: 'mover' });
  await replica.hold('moving', lease);
});
afterEach(() => replica.call('DELETE', '/v1/leases/self', { headers: { 'lease-token': lease.leaseToken } }));

const endLease = (): Promise<unknown> =>
  replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken: lease.leaseToken });

async function ask(tab: Console): Promise<void> {
  await tab.page.getByRole('button', { name: 'Revoke…' }).click();
  await tab.page.getByRole('dialog').waitFor();
}

it('says that nothing was done when the holder goes away while it is asked, and keeps the focus', async () => {
  await using tab = await Console.open(replica.url, { at: 'lines/lock/moving' });
  await ask(tab);
  await endLease();
  await tab.page.getByRole('dialog').waitFor({ state: 'detached' });
  await tab.page.getByText('Revoke lock moving: nothing was done').waitFor();
  await eventually('something has the focus', () => tab.page.evaluate(() => document.activeElement !== document.body));
  expect(tab.requests.filter((each) => !each.startsWith('GET'))).toEqual([]);
});

it('says why it was refused, also when the holder has gone away meanwhile', async () => {
  await using tab = await Console.open(replica.url, { at: 'lines/lock/moving' });
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  await tab.page.route('**/revoke', async (route) => {
    await held;
    await route.continue();
  });
  await ask(tab);
  await tab.page.getByRole('button', { name: 'Revoke', exact: true }).click();
  await endLease();
  await tab.page.getByRole('dialog').waitFor({ state: 'detached' });
  letGo();
  await tab.page.locator('.notice').getByText('Revoke lock moving: Nobody holds lock "moving"').waitFor();
});

it('says that nobody knows whether it was done, also to somebody who did not wait for it', async () => {
  await using tab = await Console.open(replica.url, { at: 'lines/lock/moving' });
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  await tab.page.route('**/revoke', async (route) => {
    await held;
    await route.abort();
  });
  await ask(tab);
  await tab.page.getByRole('button', { name: 'Revoke', exact: true }).click();
  await tab.page.getByRole('button', { name: 'Asking the gateway…' }).waitFor();
  // A browser lets a page keep a dialog open against one press, and not against the next.
  await eventually('the dialog is closed', async () => {
    await tab.page.keyboard.press('Escape');
    return (await tab.page.getByRole('dialog').count()) === 0;
  });
  letGo();
  await tab.page.locator('.notice').getByText('nobody knows whether it was done').waitFor();
});

it('says so also when that is known before the browser has told that the dialog is closed', async () => {
  await using tab = await Console.open(replica.url, { at: 'lines/lock/moving' });
  await tab.page.evaluate(() => {
    const { fetch } = globalThis;
    globalThis.fetch = (asked: RequestInfo | URL, init?: RequestInit) =>
      String(asked instanceof Request ? asked.url : asked).endsWith('/revoke')
        ? new Promise((_, reject) =>
            document.addEventListener('cut', () => reject(new TypeError('cut')), { once: true }),
          )
        : fetch(asked, init);
  });
  await ask(tab);
  await tab.page.getByRole('button', { name: 'Revoke', exact: true }).click();
  await tab.page.getByRole('button', { name: 'Asking the gateway…' }).waitFor();
  await tab.page.evaluate(() => {
    document.querySelector('dialog')?.close();
    document.dispatchEvent(new Event('cut'));
  });
  await tab.page.locator('.notice').getByText('nobody knows whether it was done').waitFor();
});

it('writes out what would turn its own words around', async () => {
  const hostile = await replica.createLease({ ttlMs: 60_000, label: '\u202Eevil\u0007' });
  await replica.hold('turned', hostile, { data: '\u202Egnp.exe' });
  await using tab = await Console.open(replica.url, { at: 'lines/lock/turned' });
  await tab.page.locator('.panel .value').getByText('\\u202egnp.exe').waitFor();
  await ask(tab);
  await tab.page.getByRole('dialog').getByText('\\u202eevil\\u0007').waitFor();
  expect(await tab.page.locator('body').innerText()).not.toMatch(/[\u202E\u0007]/);
});
