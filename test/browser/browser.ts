/** One Chromium for a file of tests, and the console in a page of it, watched for whatever it should not do. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { env } from 'node:process';
import { chromium, type Browser, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { openApi } from '../../src/http/contract/openapi.js';
import { Router } from '../../src/http/contract/router.js';
import { timing } from '../support/timing.js';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];
const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
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
}

let browser: Browser | undefined;

/** Call it once in a file: starts the browser before its tests, and ends it after them. */
export function useBrowser(): void {
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executable(), args: ARGUMENTS, timeout: timing.startMs });
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
    const { size = WIDE, scheme = 'light', key, at = 'overview' } = options;
    if (browser === undefined) throw new Error('call useBrowser() first');
    const context = await browser.newContext({ viewport: size, colorScheme: scheme, reducedMotion: 'reduce' });
    if (key !== undefined) await context.addInitScript((text) => sessionStorage.setItem('postern-key', text), key);
    const tab = new Console(await context.newPage(), origin);
    await tab.page.goto(`${origin}/console#/default/${at}`);
    return tab;
  }

  /** Follows a link in the address, as a bookmark would. */
  async go(at: string): Promise<void> {
    await this.page.evaluate((hash) => (location.hash = hash), `#/default/${at}`);
  }

  async untilLive(): Promise<void> {
    await this.page.locator('.live-live').waitFor();
  }

  /** What axe finds, in a few words each. */
  async findings(): Promise<string[]> {
    await this.page.evaluate(AXE);
    return this.page.evaluate(async () => {
      const { axe } = window as unknown as {
        axe: { run(): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> };
      };
      const { violations } = await axe.run();
      return violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
      );
    });
  }

  /** Whether something stands out beyond the width of the screen. */
  isTooWide(): Promise<boolean> {
    return this.page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
    expect(this.complaints).toEqual([]);
  }
}

function executable(): string {
  const places = (env['PATH'] ?? '').split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const found = places.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (found === undefined) throw new Error(`There is no Chromium on PATH (looked for ${NAMES.join(', ')}).`);
  return found;
}
