/** One Chromium for a file of tests, and the console in a page of it, watched for whatever it should not do. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { openApi } from '../../src/http/contract/openapi.js';
import { Router } from '../../src/http/contract/router.js';
import { timing } from '../support/timing.js';
import { launchChromium, overflowOf, violationsOf } from './chromium.js';

const router = new Router(openApi().operations);

export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 360, height: 740 };

export interface ConsoleOptions {
  readonly size?: { readonly width: number; readonly height: number };
  readonly scheme?: 'light' | 'dark';
  /** An API key, as if it had been entered. */
  readonly key?: string;
  /** What follows `#/default/`. */
  readonly at?: string;
  /** Addresses that are asked in vain: nothing is ever answered. */
  readonly unanswered?: string;
  /** As where site data is blocked: storage and locks are there, and refuse to be used. */
  readonly isBlocked?: true;
  /** False: its tabs have no locks together, as those of pages from another host without TLS. */
  readonly isShared?: boolean;
}

let browser: Browser | undefined;

/** Call it once in a file: starts the browser before its tests, and ends it after them. */
export function useBrowser(): void {
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());
}

/** A tab of its own. What it logs, asks for and breaks is noted; `close` fails if any of that should not be. */
export class Console implements AsyncDisposable {
  readonly complaints: string[] = [];
  /** Each request as `METHOD /path`. */
  readonly requests: string[] = [];

  private constructor(
    readonly page: Page,
    readonly origin: string,
  ) {
    page.setDefaultTimeout(timing.eventuallyMs);
    page.on('pageerror', (error) => this.complaints.push(`error: ${error.stack ?? error.message}`));
    page.on('console', (message) => {
      // Chromium notes each answer that is not a good one, which some tests want.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        this.complaints.push(message.text());
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.protocol === 'data:') return;
      this.requests.push(`${request.method()} ${url.pathname}`);
      const match = router.match(request.method(), url.pathname.slice(1).split('/').map(decodeURIComponent));
      if (url.origin !== origin) this.complaints.push(`asked somebody else: ${request.url()}`);
      else if (match === undefined || 'allow' in match) this.complaints.push(`not in the contract: ${url.pathname}`);
    });
  }

  static async open(origin: string, options: ConsoleOptions = {}): Promise<Console> {
    const { size = WIDE, scheme = 'light', key, at = 'overview', unanswered, isShared = true, isBlocked } = options;
    if (browser === undefined) throw new Error('call useBrowser() first');
    const context = await browser.newContext({ viewport: size, colorScheme: scheme, reducedMotion: 'reduce' });
    if (key !== undefined) await context.addInitScript((text) => sessionStorage.setItem('postern-key', text), key);
    if (!isShared) await context.addInitScript(() => delete (Navigator.prototype as { locks?: unknown }).locks);
    if (isBlocked) await context.addInitScript(blockSiteData);
    const page = await context.newPage();
    if (unanswered !== undefined) await page.route(unanswered, () => undefined);
    return Console.#at(page, origin, at);
  }

  /** Another tab of the same browser, which is closed with this one. */
  async another(at: string): Promise<Console> {
    return Console.#at(await this.page.context().newPage(), this.origin, at);
  }

  static async #at(page: Page, origin: string, at: string): Promise<Console> {
    const tab = new Console(page, origin);
    await page.goto(`${origin}/console#/default/${at}`);
    return tab;
  }

  /** Follows a link in the address, as a bookmark would. */
  async go(at: string): Promise<void> {
    await this.page.evaluate((hash) => (location.hash = hash), `#/default/${at}`);
  }

  /** As the browser does when another tab comes to the front: without a screen it shows all of them. */
  async show(isSeen: boolean): Promise<void> {
    await this.page.evaluate((isHidden) => {
      Object.defineProperty(document, 'hidden', { configurable: true, value: isHidden });
      document.dispatchEvent(new Event('visibilitychange'));
    }, !isSeen);
  }

  async untilLive(): Promise<void> {
    await this.page.locator('.live-live').waitFor();
  }

  /** What axe finds, in a few words each. */
  findings(what?: 'everything' | 'colours'): Promise<string[]> {
    return violationsOf(this.page, what);
  }

  /** Whether something stands out beyond the width of the screen, or a row beyond that of its list. */
  async isTooWide(): Promise<boolean> {
    const lists = this.page.locator('.list').filter({ visible: true });
    const isBeyond = await lists.evaluateAll((all) => all.some((list) => list.scrollWidth > list.clientWidth));
    return isBeyond || (await overflowOf(this.page)) > 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
    expect(this.complaints).toEqual([]);
  }
}

/** Runs in the page. */
function blockSiteData(): void {
  const refusal = (): DOMException => new DOMException('The user has blocked site data.', 'SecurityError');
  const get = (): never => {
    throw refusal();
  };
  for (const storage of ['localStorage', 'sessionStorage']) Object.defineProperty(window, storage, { get });
  LockManager.prototype.request = () => Promise.reject(refusal());
}
