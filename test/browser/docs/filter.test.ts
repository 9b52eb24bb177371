/** The box that finds an operation, by keyboard alone. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startFrame, type Frame } from '../../frame/harness.js';
import { startBrowser, type TestBrowser } from './browser.js';

let frame: Frame;
let browser: TestBrowser;
beforeAll(async () => {
  frame = await startFrame();
  browser = await startBrowser();
});
afterAll(async () => {
  await browser[Symbol.asyncDispose]();
  await frame[Symbol.asyncDispose]();
});

const matches = async (page: Page): Promise<string[]> => {
  const links = await page.locator('nav .tags ul a:visible').all();
  return Promise.all(links.map(async (link) => (await link.getAttribute('href')) ?? ''));
};
const status = (page: Page): Promise<string | null> => page.locator('#filter-status').textContent();
const focused = (page: Page): Promise<string | null | undefined> =>
  page.evaluate(() => document.activeElement?.getAttribute('href') ?? document.activeElement?.id);

it('narrows the operations of all pages by name, path and summary while somebody types', async () => {
  await using tab = await browser.open(frame.url);
  const { page } = tab;
  await page.goto(`${frame.url}/docs/locks`);
  await page.fill('#filter', 'showContention');
  expect(await matches(page)).toEqual(['/docs/operations#showContention']);
  expect(await status(page)).toBe('1 operation');
  await page.fill('#filter', '/v1/QUEUES purge');
  expect(await matches(page)).toEqual(['/docs/queues#purgeQueue']);
  await page.fill('#filter', 'place in its line');
  expect((await matches(page)).map((link) => link.split('#')[0])).toContain('/docs/locks');
  await page.fill('#filter', 'no such thing at all');
  expect([await matches(page), await status(page)]).toEqual([[], 'No operation matches.']);
  await page.fill('#filter', '');
  expect((await matches(page)).every((link) => link.startsWith('/docs/locks#'))).toBe(true);
  expect(tab.complaints).toEqual([]);
});

it('asks the network for nothing', async () => {
  await using tab = await browser.open(frame.url);
  await tab.page.goto(`${frame.url}/docs/locks`);
  await tab.page.context().setOffline(true);
  await tab.page.fill('#filter', 'heartbeat');
  expect((await matches(tab.page)).length).toBeGreaterThan(1);
});

it('is reached with "/", left with arrows and Escape, and Enter goes to the first match', async () => {
  await using tab = await browser.open(frame.url);
  const { page } = tab;
  await page.goto(`${frame.url}/docs/locks`);
  await page.keyboard.press('/');
  expect(await focused(page)).toBe('filter');
  await page.keyboard.type('acknowledge');
  const [first, second] = await matches(page);
  await page.keyboard.press('ArrowDown');
  expect(await focused(page)).toBe(first);
  await page.keyboard.press('ArrowDown');
  expect(await focused(page)).toBe(second);
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  expect(await focused(page)).toBe('filter');
  await page.keyboard.press('Escape');
  expect(await page.inputValue('#filter')).toBe('');
  await page.keyboard.type('/v1/status');
  expect(await page.inputValue('#filter')).toBe('/v1/status');
  await page.keyboard.press('Enter');
  await page.waitForURL(`${frame.url}/docs/operations#status`);
  expect(tab.complaints).toEqual([]);
});

it('a reader at the keyboard skips the list of operations', async () => {
  await using tab = await browser.open(frame.url);
  await tab.page.goto(`${frame.url}/docs/locks`);
  await tab.page.keyboard.press('Tab');
  expect(await focused(tab.page)).toBe('#main');
  await tab.page.keyboard.press('Enter');
  await tab.page.keyboard.press('Tab');
  expect(await tab.page.evaluate(() => document.activeElement?.closest('main') !== null)).toBe(true);
});
