/** The view of schedules: what was pushed and what was refused, live; and a schedule that is paused and goes on. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, useBrowser } from './browser.js';

useBrowser();

let replica: Replica;
beforeAll(async () => {
  replica = await startReplica({ settings: { POSTERN_SCHEDULE_SECONDS: 'true' } });
});
afterAll(() => replica[Symbol.asyncDispose]());

function put(name: string, queue: string): Promise<unknown> {
  const body = { cron: '* * * * * *', to: { queue, body: { job: name }, priority: 3 }, misfire: 'once' };
  return replica.expect(201, 'PUT', `/v1/schedules/${name}`, { body });
}

it('shows what was pushed, pauses it, lets it go on as it was, and deletes it', async () => {
  await replica.expect(201, 'PUT', '/v1/queues/ticks', { body: { order: 'priority' } });
  await put('ticker', 'ticks');
  await using tab = await Console.open(replica.url, { at: 'schedules' });
  const { page } = tab;
  const panel = page.locator('.panel');
  await page.locator('.list').getByRole('link', { name: 'ticker' }).click();
  await panel.getByText('It was due').waitFor();
  await panel.getByText('The next times').waitFor();
  expect(await panel.getByRole('row').count()).toBe(1 + 5);

  await act(tab, 'Pause');
  await panel.getByText('paused', { exact: true }).waitFor();
  await panel.getByText('Nothing is due.').waitFor();
  expect(await tab.findings()).toEqual([]);
  await act(tab, 'Resume');
  await panel.getByText('active', { exact: true }).waitFor();
  const shown = await replica.expect(200, 'GET', '/v1/schedules/ticker');
  expect(shown).toMatchObject({ misfire: 'once', paused: false, to: { body: { job: 'ticker' }, priority: 3 } });

  await act(tab, 'Delete');
  await panel.getByText('There is no such schedule.').waitFor();
  await eventually('it is deleted', async () => (await replica.call('GET', '/v1/schedules/ticker')).status === 404);
});

async function act({ page }: Console, verb: string): Promise<void> {
  await page.getByRole('button', { name: `${verb}…` }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: `${verb} schedule` }).click();
  await dialog.waitFor({ state: 'detached' });
}

it('says why the queue refuses what is due', async () => {
  await replica.expect(201, 'PUT', '/v1/queues/full', { body: { order: 'priority', maxDepth: 1 } });
  await put('overflow', 'full');
  await using tab = await Console.open(replica.url, { at: 'schedules/schedule/overflow' });
  const panel = tab.page.locator('.panel');
  await panel.getByText('The queue refuses what was due at').waitFor();
  await panel.getByText('refused', { exact: true }).waitFor();
  expect(await tab.findings()).toEqual([]);
});
