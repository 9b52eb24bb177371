/** The documentation site, read from the disk as somebody without a network would. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { timing } from '../../support/timing.js';
import { overflowOf, violationsOf } from '../chromium.js';
import { startBrowser, type TestBrowser } from '../docs/browser.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const DISK = 'null'; // the origin of every file
const at = (page: string): string => pathToFileURL(join(ROOT, 'site', page)).href;
const found = (page: Page): Promise<string[]> => page.locator('search li a').allTextContents();

let browser: TestBrowser;
beforeAll(async () => {
  await promisify(execFile)(execPath, [join(ROOT, 'scripts', 'site.mjs')], { timeout: timing.processMs });
  browser = await startBrowser();
}, timing.processMs);
afterAll(() => browser[Symbol.asyncDispose]());

it('finds the sections that have every word, those with it in their heading first', async () => {
  await using tab = await browser.open(DISK);
  const { page } = tab;
  await page.goto(at('recipes/lock.html'));
  await page.keyboard.press('/');
  await page.keyboard.type('rendezvous');
  await eventually('it shows what it has found', async () => (await found(page))[0] === 'Configuration: Rendezvous');
  await page.fill('search input', 'rendezvous zzqq');
  await eventually('no section has both', async () => (await found(page)).length === 0);
  await page.fill('search input', 'rendezvous');
  await page.locator('search li a').first().click();
  expect(page.url()).toBe(`${at('recipes/config.html')}#rendezvous`);
  expect(tab.complaints).toEqual([]);
});

it.each<[string, BrowserContextOptions]>([
  ['wide and light', { colorScheme: 'light' }],
  ['narrow and dark', { colorScheme: 'dark', viewport: { width: 360, height: 740 } }],
])('can be read by everybody, %s', async (_how, options) => {
  await using tab = await browser.open(DISK, options);
  const { page } = tab;
  for (const name of ['index.html', 'recipes/queue.html', 'settings.html', 'protocol.html']) {
    await page.goto(at(name));
    expect(await overflowOf(page), `${name} is wider than the window`).toBe(0);
    expect(await violationsOf(page), name).toEqual([]);
  }
});
