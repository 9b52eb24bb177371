/** The Chromium that all these tests start, and what axe finds in a page of it. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { env } from 'node:process';
import { chromium, type Browser, type Page } from 'playwright-core';
import { timing } from '../support/timing.js';

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

const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/** What axe is to look at, as its options. */
const LOOKS = {
  everything: {},
  colours: { runOnly: COLOUR_RULES },
  'everything but colours': { rules: Object.fromEntries(COLOUR_RULES.map((rule) => [rule, { enabled: false }])) },
};
export type Look = keyof typeof LOOKS;

/** @throws Error if there is none at `CHROMIUM` */
export function launchChromium(): Promise<Browser> {
  const executablePath = env['CHROMIUM'] ?? '/usr/bin/chromium';
  return chromium.launch({ executablePath, args: FLAGS, timeout: timing.startMs });
}

interface Axe {
  run(options: unknown): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
}

/**
 * What axe finds against the page as it is, in a few words each: rules of WCAG 2.2 AA, and what is known to be good
 * practice.
 * @param what of a page that was looked at in another colour scheme nothing but the colours is different, and of one
 *   that was looked at in another width everything but the colours, which take most of the time
 */
export async function violationsOf(page: Page, what: Look = 'everything'): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(AXE);
  return page.evaluate(
    async (options) => {
      const { axe } = window as unknown as { axe: Axe };
      const { violations } = await axe.run(options);
      return violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
      );
    },
    {
      // What is well need not be told of: most of the time of a run is spent on saying where each element is.
      resultTypes: ['violations'],
      ...LOOKS[what],
    },
  );
}

/** By how much the page is wider than what is shown of it, px. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
