/** Keys: none, wrong, removed, narrow; and where a key goes. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, NARROW, useBrowser } from './browser.js';

useBrowser();

const RIGHTS = {
  admin: '*' as const,
  passing: '*' as const,
  locksOnly: { default: { lock: ['read' as const] } },
  nothing: { elsewhere: ['read' as const] },
};
let keys: ApiKeys;
let replica: Replica;
beforeAll(async () => {
  keys = await makeApiKeys(RIGHTS);
  replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
});
afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

const keyOf = (principal: string): string => keys.as(principal, replica.url).key;

it('asks for a key, refuses a wrong one with the reason, and opens with a right one', async () => {
  await using tab = await Console.open(replica.url, { size: NARROW, scheme: 'dark' });
  await tab.page.getByRole('heading', { name: 'An API key is needed' }).waitFor();
  expect(await tab.findings()).toEqual([]);
  const field = tab.page.getByLabel('API key', { exact: true });
  await field.fill('wrong');
  await field.press('Enter');
  await tab.page.getByRole('heading', { name: 'This key is not accepted' }).waitFor();
  await tab.page.getByText('mistyped, expired or removed').waitFor();
  expect(await tab.findings()).toEqual([]);
  await field.fill(keyOf('admin'));
  await field.press('Enter');
  await tab.untilLive();
  await tab.page.reload();
  await tab.untilLive();
  await tab.page.getByRole('button', { name: 'Forget key' }).click();
  await tab.page.getByRole('heading', { name: 'An API key is needed' }).waitFor();
  expect(await tab.page.evaluate(() => [sessionStorage.length, localStorage.length])).toEqual([0, 0]);
});

it('sends the key to this origin alone, in the header Authorization alone', async () => {
  const key = keyOf('admin');
  await using tab = await Console.open(replica.url, { key });
  const leaked: string[] = [];
  let authorized = 0;
  tab.page.on('request', (request) => {
    const { authorization, ...others } = request.headers();
    if (authorization === `Bearer ${key}`) authorized += 1;
    if (`${request.url()} ${request.postData()} ${JSON.stringify(others)}`.includes(key)) leaked.push(request.url());
  });
  for (const at of ['lines', 'leases', 'contention']) {
    await tab.go(at);
    await tab.page.locator('.page-main > .state').waitFor();
  }
  expect(leaked).toEqual([]);
  expect(authorized).toBeGreaterThan(0);
  expect(tab.page.url()).not.toContain(key);
  expect(await tab.page.evaluate(() => [document.cookie, localStorage.length])).toEqual(['', 0]);
});

it('says so when the key is removed while the page is open', async () => {
  await using tab = await Console.open(replica.url, { key: keyOf('passing') });
  await tab.untilLive();
  const { passing: _, ...left } = RIGHTS;
  await keys.leave(left);
  await tab.page.getByRole('heading', { name: 'This key is not accepted' }).waitFor();
});

it('shows what a narrow key may read, and which scope is missing for the rest', async () => {
  const admin = keys.as('admin', replica.url);
  await admin.hold('seen', await admin.createLease({ ttlMs: 60_000 }));
  await admin[Symbol.asyncDispose]();
  await using tab = await Console.open(replica.url, { key: keyOf('locksOnly'), at: 'lines' });
  await tab.page.locator('.list').getByText('seen').waitFor();
  await tab.page.getByText('This key may not read read-write lock, semaphore, election').waitFor();
  await tab.go('queues');
  await tab.page.getByText('It lacks the scope “read” on queues.').waitFor();
  expect(await tab.findings()).toEqual([]);
  await tab.go('leases');
  await tab.page.getByText('It lacks the scope “admin” on leases.').waitFor();
});

it('says so when a key may read nothing in a namespace', async () => {
  await using tab = await Console.open(replica.url, { key: keyOf('nothing'), at: 'lines' });
  await tab.page.getByText('It lacks the scope “read” on locks.').waitFor();
  expect(await tab.findings()).toEqual([]);
});
