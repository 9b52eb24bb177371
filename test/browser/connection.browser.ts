/** What the page says when the replica, or ZooKeeper behind it, goes away and comes back. */
import { expect, it } from 'vitest';
import { throughout } from '../support/eventually.js';
import { spawnReplica } from '../support/start-gateway.js';
import { startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { Console, useBrowser } from './browser.js';

useBrowser();

/** The gateway is patient with ZooKeeper for ten seconds before it says that it is not ready. */
const UNREADY_MS = scaled(30_000);

it('says that the connection is lost when the replica is killed, and is live again when it is back', async () => {
  await using replica = await spawnReplica();
  await replica.expect(200, 'POST', '/v1/counters/before/add', { body: { by: 1 } });
  await using tab = await Console.open(replica.url, { at: 'counters' });
  const main = tab.page.locator('main');
  await main.getByText('before').waitFor();
  await replica.kill();
  await main.getByText('The connection to the gateway is lost.').waitFor();
  await main.getByText('before').waitFor();
  expect(await tab.findings()).toEqual([]);
  await replica.restart();
  await replica.expect(200, 'POST', '/v1/counters/after/add', { body: { by: 1 } });
  await main.getByText('after').waitFor();
  await tab.untilLive();
  await main.getByText('The connection to the gateway is lost.').waitFor({ state: 'detached' });
});

it('says that the connection is lost for as long as it is, also while it tries again', async () => {
  await using replica = await spawnReplica();
  await using tab = await Console.open(replica.url);
  await tab.untilLive();
  await tab.page.route('**/v1/events*', () => undefined); // nobody answers the next tries
  await replica.kill();
  const banner = tab.page.getByText('The connection to the gateway is lost.');
  await banner.waitFor();
  const asked = tab.page.waitForRequest('**/v1/events*');
  await tab.page.getByRole('button', { name: 'Try now' }).click();
  await asked;
  await throughout('it is said', () => banner.isVisible());
  expect(await tab.page.locator('.live-lost').count()).toBe(1);
});

it('resumes from the last event, without a word, when the gateway ends the stream in time', async () => {
  await using replica = await spawnReplica({ settings: { POSTERN_MAX_WAIT_MS: '1000' } });
  await using tab = await Console.open(replica.url);
  await tab.untilLive();
  const again = await tab.page.waitForRequest((request) => request.headers()['last-event-id'] !== undefined);
  expect(new URL(again.url()).pathname).toBe('/v1/events');
  await tab.untilLive();
  expect(await tab.page.getByText('The connection to the gateway is lost.').count()).toBe(0);
});

it('says that ZooKeeper is away, and that it is back', { timeout: 2 * UNREADY_MS }, async () => {
  await using zookeeper = await startZooKeeper({ proxied: true });
  await using replica = await spawnReplica({ zookeeper: zookeeper.proxy.connectString });
  await using tab = await Console.open(replica.url);
  await tab.untilLive();
  zookeeper.proxy.suspend();
  const banner = tab.page.getByText('This replica cannot reach ZooKeeper.');
  await banner.waitFor({ timeout: UNREADY_MS });
  expect(await tab.findings()).toEqual([]);
  zookeeper.proxy.resume();
  await banner.waitFor({ state: 'detached', timeout: UNREADY_MS });
});
