/** A browser that complains: of whatever a page logs, throws, is refused by its policy, or asks elsewhere. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { env } from 'node:process';
import { chromium, type BrowserContextOptions, type Page } from 'playwright-core';
import { timing } from '../../support/timing.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Nothing but what a test does leaves it. Its sandbox needs what containers do not give. */
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Tab extends AsyncDisposable {
  readonly page: Page;
  /** Everything that was wrong so far. */
  readonly complaints: readonly string[];
}

export interface TestBrowser extends AsyncDisposable {
  /** @param url of the only replica that its pages may ask */
  open(url: string, options?: BrowserContextOptions): Promise<Tab>;
}

export async function startBrowser(): Promise<TestBrowser> {
  const browser = await chromium.launch({ executablePath: env['CHROMIUM'] ?? '/usr/bin/chromium', args: FLAGS });
  return {
    async open(url, options = {}) {
      const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, ...options });
      context.setDefaultTimeout(timing.testMs / 4);
      const page = await context.newPage();
      return { page, complaints: complaintsOf(page, url), [Symbol.asyncDispose]: () => context.close() };
    },
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

function complaintsOf(page: Page, url: string): string[] {
  const complaints: string[] = [];
  page.on('console', (message) => {
    // An answer that is a problem is what some tests ask for; the browser says so of each.
    if (!/^Failed to load resource: the server responded with a status of 4\d\d/.test(message.text()))
      complaints.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== url) complaints.push(`asks elsewhere: ${request.url()}`);
  });
  return complaints;
}

/** What axe finds against the page as it is: rules of WCAG 2.2 AA, and what is known to be good practice. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(): Promise<AxeResults> } };
    const { violations } = await axe.run();
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
  });
}

interface AxeResults {
  violations: { id: string; nodes: { html: string }[] }[];
}

/** By how much the page is wider than what is shown of it, px. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
