/** Addresses of things that are not there, or are not for this key: what stands in the place of the thing. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, NARROW, useBrowser } from './browser.js';
import { setScene, type Scene } from './scene.js';

useBrowser();

let keys: ApiKeys;
let replica: Replica;
let scene: Scene;
let endScene: () => Promise<void>;
beforeAll(async () => {
  keys = await makeApiKeys({ admin: '*', some: { default: { '*': { scopes: ['read'], names: ['mine*'] } } } });
  replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  const admin = keys.as('admin', replica.url);
  scene = await setScene(admin);
  endScene = async () => {
    await scene.end();
    await admin[Symbol.asyncDispose]();
  };
});
afterAll(async () => {
  await endScene();
  await replica[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

const open = (principal: string, at: string, size = NARROW): Promise<Console> =>
  Console.open(replica.url, { key: keys.as(principal, replica.url).key, at, size });

it.each([
  ['queues/queue/orders', 'queue', 'There is no such queue.'],
  ['config/config/app%2Ffeature-flags', 'config', 'There is no such key.'],
  ['pools/pool/phones', 'pool', 'There is no such pool.'],
  ['barriers/barrier/release', 'barrier', 'It is not raised.'],
  ['counters/counter/orders', 'counter', 'There is no such counter: it counts as 0.'],
  ['groups/group/workers', 'group', 'Nobody is in it.'],
  ['runs/run/report', 'run', 'Nothing is remembered of it.'],
  ['schedules/schedule/new-year', 'schedule', 'There is no such schedule.'],
])('%s is not said to be absent to a key with rights to other names', async (at, kind, absent) => {
  await using tab = await open('some', at);
  const panel = tab.page.locator('.panel');
  await tab.untilLive();
  await panel.getByText(`It lacks the scope “read” on the ${kind} “`).first().waitFor();
  expect(await panel.getByText(absent).count()).toBe(0);
  expect(await tab.findings()).toEqual([]);
  await tab.go(at.replace(/[^/]+$/, 'mine'));
  await panel.getByText(absent).waitFor();
});

it('says that a key may see some names only where there is nothing to see', async () => {
  await using tab = await open('some', 'queues');
  await tab.page.getByText('A key with rights to some names is shown no others.').waitFor();
  await tab.go('overview');
  await tab.page.getByText('in all queues that this key may read').waitFor();
});

it.each([
  ['transactions/transaction/absent', 'There is no transaction "absent"'],
  [`leases/lease/${'0'.repeat(32)}`, 'There is no lease'],
  ['queues/queue/a%20b', 'There is no such queue.'],
  ['lines/lease/absent', 'There is no such kind of line.'],
  ['lines/lock/..', 'There can be nothing with the name “..”.'],
])('%s says so, without an alarm, and leads back', async (at, said) => {
  await using tab = await open('admin', at);
  await tab.page.locator('.panel').getByText(said).waitFor();
  if (!at.endsWith('..'))
    expect(await tab.page.locator('main').getByRole('alert').filter({ hasText: /./ }).count()).toBe(0);
  expect(await tab.findings()).toEqual([]);
  await tab.page.getByRole('link', { name: 'Close' }).click();
  await tab.page.locator('.page-main').waitFor();
});

it('names the namespace in which one is, also after one was typed that none can have', async () => {
  await using tab = await open('admin', 'counters');
  await tab.untilLive();
  const chooser = tab.page.getByLabel('Namespace');
  await chooser.fill('..');
  await chooser.press('Enter');
  expect(await chooser.evaluate((input: HTMLInputElement) => input.matches(':invalid'))).toBe(true);
  await chooser.fill('not one');
  await chooser.press('Tab');
  await expect.poll(() => chooser.inputValue()).toBe('default');
});
