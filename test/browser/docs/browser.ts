/** A browser that complains: of whatever a page logs, throws, is refused by its policy, or asks elsewhere. */
import type { BrowserContextOptions, Page } from 'playwright-core';
import { timing } from '../../support/timing.js';
import { launchChromium } from '../chromium.js';

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
  const browser = await launchChromium();
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
