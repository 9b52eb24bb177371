/// <reference lib="dom" />
/**
 * The pages that a replica serves, in a browser: everything of the contract is there, nothing comes from elsewhere or
 * is stopped by the policy of the page, and a telephone shows it without moving it sideways.
 */
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { parse } from 'yaml';
import { ROOT } from '../lib/install.mjs';
import { thePair } from './scene.mjs';
import { tools } from './tools.mjs';

const METHODS = ['get', 'post', 'put', 'delete'];
const WIDTHS = [1_280, 375];
const SCHEMES = /** @type {const} */ (['light', 'dark']);

export const pageChecks = [
  { name: 'pages: /docs and the pages of problems in a browser, wide and narrow, light and dark', check: checkPages },
];

async function checkPages() {
  const { replicas } = await thePair();
  return checkPagesAt(replicas[0]?.url ?? '');
}

/** @param {string} url of a replica */
export async function checkPagesAt(url) {
  const executablePath = await tools.chromium();
  const pictures = await mkdtemp(join(tmpdir(), 'postern-pages-'));
  const operations = await operationIds();
  // Its sandbox needs what containers do not give; it sees our own pages only.
  const browser = await chromium.launch({ executablePath, chromiumSandbox: false });
  try {
    for (const path of ['/docs', '/docs/locks', '/problems/lock-held', '/problems/invalid'])
      for (const width of WIDTHS)
        for (const colorScheme of SCHEMES) {
          const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
          const complaints = complaintsOf(page, url);
          await page.goto(url + path);
          if (path === '/docs') await expectOperations(page, operations);
          complaints.push(...(await layoutOf(page)));
          await page.screenshot({
            path: join(pictures, `${path.slice(1).replaceAll('/', '-')}-${width}-${colorScheme}.png`),
          });
          await page.close();
          if (complaints.length > 0)
            throw new Error(`${path}, ${width} wide, ${colorScheme}: ${complaints.join('; ')}`);
        }
  } finally {
    await browser.close();
  }
  return `${operations.length} operations; pictures in ${pictures}`;
}

/** @returns {Promise<string[]>} */
async function operationIds() {
  const { paths } = parse(await readFile(join(ROOT, 'openapi.yaml'), 'utf8'));
  return Object.values(paths).flatMap((item) => METHODS.flatMap((method) => item[method]?.operationId ?? []));
}

/** @param {any} page of Playwright @param {string} url @returns {string[]} grows as the page is loaded */
function complaintsOf(page, url) {
  /** @type {string[]} */
  const complaints = [];
  page.on('console', (message) => complaints.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('requestfailed', (request) => complaints.push(`not loaded: ${request.url()}`));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== url) complaints.push(`asks elsewhere: ${request.url()}`);
  });
  return complaints;
}

/** Each with a link to where it is explained. @param {any} page of Playwright @param {readonly string[]} ids */
async function expectOperations(page, ids) {
  const missing = await page.evaluate(
    (wanted) =>
      wanted.filter((id) => {
        const link = document.querySelector(`tr[id="${id}"] a[href$="#${id}"]`);
        return (link?.getClientRects().length ?? 0) === 0;
      }),
    [...ids],
  );
  if (missing.length > 0) throw new Error(`/docs does not show ${missing.join(', ')}`);
}

/** @param {any} page of Playwright */
async function layoutOf(page) {
  return page.evaluate(() => {
    const complaints = [];
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) complaints.push(`it is ${scrollWidth} wide, and ${clientWidth} are shown`);
    // A status of three digits on as many lines is not to be read.
    for (const code of Array.from(document.querySelectorAll('td:first-child > code')))
      if (/^\d{3}$/.test(code.textContent ?? '') && code.getClientRects().length > 1)
        return [...complaints, `the status ${code.textContent} is broken over lines`];
    return complaints;
  });
}
