/** Keys: none, wrong, removed, narrow; and where a key goes. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { KeyedClient, makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { IdentityProvider } from '../support/http/identity-provider.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { Console, NARROW, useBrowser } from './browser.js';

useBrowser();

const RIGHTS = {
  admin: '*' as const,
  locksOnly: { default: { lock: ['read' as const] } },
  nothing: { elsewhere: ['read' as const] },
};
/** Enough to open the page. */
const TOKEN_MS = scaled(3_000);
/** For so long after its end a token is still accepted: clocks differ. */
const TOLERANCE_MS = 30_000;

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

/** Something that is lost when the page is loaded again. */
const MARK = 'not loaded again';

/** Gives another key where the last one is no longer accepted, and is where it was. */
async function goOnWith(tab: Console, key: string, why: string): Promise<void> {
  const { page } = tab;
  const before = page.url();
  await page.getByRole('heading', { name: 'This key is no longer accepted' }).waitFor();
  await page.getByRole('alert').getByText(why).waitFor();
  // Nothing of what the old key could read is left to be read.
  expect(await page.locator('main').getByText('seen').count()).toBe(0);
  expect(await tab.findings()).toEqual([]);
  const field = page.getByLabel('API key', { exact: true });
  await field.fill(key);
  await field.press('Enter');
  await tab.untilLive();
  await page.locator('.panel').getByText('Fencing token').waitFor();
  expect([page.url(), await page.evaluate(() => window.name)]).toEqual([before, MARK]);
}

async function openLock(url: string, key: string): Promise<Console> {
  const tab = await Console.open(url, { key, at: 'lines/lock/seen' });
  await tab.page.evaluate((mark) => (window.name = mark), MARK);
  await tab.page.locator('.panel').getByText('Fencing token').waitFor();
  return tab;
}

it('asks for another key when its own is replaced while the page is open, and goes on where it was', async () => {
  await using rotated = await makeApiKeys({ old: '*', next: '*' }, () => 'operator');
  await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: rotated.file } });
  await using operator = rotated.as('next', guarded.url);
  await operator.hold('seen', await operator.createLease({ ttlMs: 60_000 }));
  await using tab = await openLock(guarded.url, rotated.as('old', guarded.url).key);
  await rotated.leave({ next: '*' });
  await goOnWith(tab, operator.key, 'This API key is not known here.');
});

it('asks for another token when its own has expired, and goes on where it was', async () => {
  await using provider = await IdentityProvider.start();
  const settings = { POSTERN_OIDC_ISSUER: provider.issuer, POSTERN_OIDC_AUDIENCE: provider.audience };
  await using guarded = await startReplica({ settings });
  const claims = { postern: { default: ['read', 'use', 'admin'] } };
  const lasting = await provider.sign(claims);
  await using client = new KeyedClient(guarded.url, lasting);
  await client.hold('seen', await client.createLease({ ttlMs: 60_000 }));
  const exp = Math.ceil((Date.now() + TOKEN_MS - TOLERANCE_MS) / 1_000);
  await using tab = await openLock(guarded.url, await provider.sign(claims, { exp }));
  await goOnWith(tab, lasting, 'expired');
});

it('shows nothing of what its key may no longer read, and says which scope is missing', async () => {
  await using narrowed = await makeApiKeys({ one: '*', admin: '*' });
  await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: narrowed.file } });
  await using admin = narrowed.as('admin', guarded.url);
  const lease = await admin.createLease({ ttlMs: 60_000, label: 'seen' });
  await admin.hold('seen', lease, { data: 'seen' });
  const { key } = narrowed.as('one', guarded.url);
  await using lock = await Console.open(guarded.url, { key, at: 'lines/lock/seen' });
  await lock.page.locator('.panel').getByText('Fencing token').waitFor();
  await using leases = await Console.open(guarded.url, { key, at: 'leases' });
  await leases.page.locator('.list').getByText('seen').waitFor();
  await narrowed.leave({ one: { default: { counter: ['read'] } }, admin: '*' });
  await leases.page.getByText('It lacks the scope “admin” on leases.').waitFor();
  await lock.page.locator('.panel').getByText('This key may not read').waitFor();
  for (const { page } of [lock, leases]) {
    await page.locator('.list').waitFor({ state: 'detached' });
    expect(await page.locator('.card, .list').getByText('seen').count()).toBe(0);
  }
});

it('keeps a new key when the refusal of the old one comes late', async () => {
  await using rotated = await makeApiKeys({ old: '*', next: '*' }, () => 'operator');
  await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: rotated.file } });
  await using operator = rotated.as('next', guarded.url);
  await operator.hold('seen', await operator.createLease({ ttlMs: 60_000 }));
  await using tab = await openLock(guarded.url, rotated.as('old', guarded.url).key);
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  await tab.page.route('**/revoke', async (route) => {
    await held;
    await route.continue();
  });
  await tab.page.getByRole('button', { name: 'Revoke…' }).click();
  await tab.page.getByRole('button', { name: 'Revoke', exact: true }).click();
  await rotated.leave({ next: '*' });
  await goOnWith(tab, operator.key, 'This API key is not known here.');
  const late = tab.page.waitForResponse((response) => response.url().endsWith('/revoke'));
  letGo();
  expect((await late).status()).toBe(401);
  await tab.go('leases');
  await tab.page.locator('.list').waitFor();
  await tab.untilLive();
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

it.each(['config', 'queue', 'counter', 'group', 'barrier', 'run', 'schedule', 'pool'])(
  'does not say that a %s is absent that the key may not read',
  async (kind) => {
    const view = kind === 'config' ? kind : `${kind}s`;
    await using tab = await Console.open(replica.url, { key: keyOf('locksOnly'), at: `${view}/${kind}/secret` });
    const panel = tab.page.locator('.panel');
    await panel.getByText('This key may not read secret.').waitFor();
    await panel.getByText('It lacks the scope “read” on').waitFor();
    expect(await panel.locator('.state').count()).toBe(1);
    expect(await tab.findings()).toEqual([]);
  },
);

it('says that a key is no longer accepted that only a tab without a stream has used', async () => {
  await using rotated = await makeApiKeys({ old: '*', next: '*' });
  await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: rotated.file } });
  const { key } = rotated.as('old', guarded.url);
  await using tab = await Console.open(guarded.url, { key, at: 'transactions', unanswered: '**/v1/events*' });
  await tab.page.getByText('There is no transaction').first().waitFor();
  await rotated.leave({ next: '*' });
  await tab.page.getByRole('heading', { name: 'This key is no longer accepted' }).waitFor();
  expect(await tab.page.getByText('mistyped').count()).toBe(0);
});

it('opens with a key where site data is blocked, which is gone with the page', async () => {
  await using tab = await Console.open(replica.url, { isBlocked: true });
  const field = tab.page.getByLabel('API key', { exact: true });
  await field.fill(keyOf('admin'));
  await field.press('Enter');
  await tab.untilLive();
  await tab.page.reload();
  await tab.page.getByRole('heading', { name: 'An API key is needed' }).waitFor();
});

it('says so when a key may read nothing in a namespace', async () => {
  await using tab = await Console.open(replica.url, { key: keyOf('nothing'), at: 'lines' });
  await tab.page.getByText('It lacks the scope “read” on locks.').waitFor();
  expect(await tab.findings()).toEqual([]);
});
