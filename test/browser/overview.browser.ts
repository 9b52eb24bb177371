/** The overview: what its tiles and its plot say of what is not known, and what a list says of it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeApiKeys } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, useBrowser } from './browser.js';
import { setScene, type Scene } from './scene.js';

useBrowser();

/** On the plot a second is some pixels wide. */
const HIDDEN_MS = 5_000;
const GAP_MIN_PX = 8;
const CONTENTION = '**/v1/contention*';

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

async function untilTileSays({ page }: Console, word: string, text: string): Promise<void> {
  await page.locator('.tile', { hasText: word }).getByText(text, { exact: true }).waitFor();
}

async function untilPlotSays({ page }: Console, text: string): Promise<void> {
  await page.locator(`.plot[aria-label*="${text}"]`).waitFor();
}

it('has words in place of the numbers that a key may not read', async () => {
  await using keys = await makeApiKeys({ admin: '*', locksOnly: { default: { lock: ['read'] } }, nothing: {} });
  await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using admin = keys.as('admin', guarded.url);
  await admin.hold('seen', await admin.createLease({ ttlMs: 250_000 }));
  await using tab = await Console.open(guarded.url, { key: keys.as('locksOnly', guarded.url).key });
  await untilTileSays(tab, 'Holds', '1');
  await untilTileSays(tab, 'Waiting now', 'may not be read');
  await untilTileSays(tab, 'Messages', 'may not be read');
  await untilTileSays(tab, 'Holds', 'of locks alone');
  await untilPlotSays(tab, 'now held: 1, waiting: may not be read.');
  expect(await tab.findings()).toEqual([]);

  await using blind = await Console.open(guarded.url, { key: keys.as('nothing', guarded.url).key });
  await untilTileSays(blind, 'Holds', 'may not be read');
  await untilPlotSays(blind, 'now held: may not be read');
});

it('has words in place of an old number when that can no longer be read', async () => {
  await using tab = await Console.open(replica.url);
  await untilTileSays(tab, 'Waiting now', '2');
  await tab.page.route(CONTENTION, (route) => route.abort());
  await untilTileSays(tab, 'Waiting now', 'cannot be read');
  await untilPlotSays(tab, 'waiting: cannot be read.');
  await tab.page.unroute(CONTENTION);
  await untilTileSays(tab, 'Waiting now', '2');
  await tab.page.route('**/metrics', (route) => route.abort());
  await tab.go('lines');
  await tab.go('overview');
  await untilTileSays(tab, 'Herd factor', 'cannot be read');
});

it('says that an answer failed also beside the rows of the one before', async () => {
  await using tab = await Console.open(replica.url, { at: 'leases' });
  await tab.page.locator('.list').getByText('nightly-backup').waitFor();
  await tab.page.route('**/v1/leases*', (route) => route.abort());
  await tab.page.getByText('Could not read more of the leases.').waitFor();
  await tab.page.getByText('The gateway does not answer.').waitFor();
  await tab.page.locator('.list').getByText('nightly-backup').waitFor();
  expect(await tab.findings()).toEqual([]);
});

it.each([
  ['nobody looked', (tab: Console) => tab.show(false), (tab: Console) => tab.show(true)],
  [
    'nothing was answered',
    (tab: Console) => tab.page.route(CONTENTION, (route) => route.abort()),
    (tab: Console) => tab.page.unroute(CONTENTION),
  ],
])('has a gap in the line of those that wait for the time in which %s', async (_why, begin, end) => {
  await using tab = await Console.open(replica.url);
  await untilPlotSays(tab, 'waiting: 2.');
  await untilDrawn(tab);
  await begin(tab);
  await tab.page.waitForFunction(([start, ms]) => Date.now() - start > ms, [Date.now(), HIDDEN_MS] as const);
  await end(tab);
  await untilPlotSays(tab, 'waiting: 2.');
  // The line goes on behind the gap.
  await tab.page.waitForFunction(gapIn, ['--plot-waiting', GAP_MIN_PX] as const);
  expect(await tab.page.evaluate(gapIn, ['--plot-held', GAP_MIN_PX] as const)).toBe(false);
});

/** A few seconds of both lines. */
async function untilDrawn({ page }: Console): Promise<void> {
  await page.waitForFunction((start) => Date.now() - start > 3_000, Date.now());
}

/** Runs in the page: whether a line of the plot is interrupted, and goes on. */
function gapIn([colour, leastPx]: readonly [string, number]): boolean {
  const canvas = document.querySelector<HTMLCanvasElement>('.plot canvas');
  const context = canvas?.getContext('2d');
  if (canvas == null || context == null) return false;
  const probe = document.body.appendChild(document.createElement('i'));
  probe.style.color = `var(${colour})`;
  const [red = 0, green = 0, blue = 0] = getComputedStyle(probe).color.match(/\d+/g)?.map(Number) ?? [];
  probe.remove();
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const drawn: number[] = [];
  for (let x = 0; x < canvas.width; x += 1)
    for (let y = 0; y < canvas.height; y += 1) {
      const at = 4 * (y * canvas.width + x);
      const [r = 0, g = 0, b = 0, alpha = 0] = data.subarray(at, at + 4);
      if (alpha < 128 || Math.abs(r - red) + Math.abs(g - green) + Math.abs(b - blue) > 60) continue;
      drawn.push(x);
      break;
    }
  return drawn.some((x, index) => index > 0 && x - (drawn[index - 1] as number) >= leastPx);
}
