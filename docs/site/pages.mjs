/**
 * Which files the site shows, in which part, and where each of them lies in it. A file that no part lists is not on the
 * site, and a link to it leads to a copy of it as it is.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A `/` at the end means a folder, of which a page lists the files; pages in it are in the same part. */
export const PARTS = [
  {
    title: 'Start',
    pages: [
      ['README.md', 'What it is'],
      ['docs/curl.md', 'curl'],
      ['docs/client.md', 'TypeScript client'],
      ['docs/command.md', 'Command'],
      ['docs/sidecar.md', 'Sidecar'],
      ['docs/console.md', 'Console'],
      ['docs/fleetlock.md', 'FleetLock'],
      ['docs/terraform.md', 'Terraform'],
      ['examples/', 'Examples'],
    ],
  },
  {
    title: 'Recipes',
    pages: [
      ['docs/recipes/README.md', 'Which one'],
      ['docs/recipes/leases.md', 'Leases'],
      ['docs/recipes/lock.md', 'Lock'],
      ['docs/recipes/reservations.md', 'Reservation'],
      ['docs/recipes/read-write-lock.md', 'Read-write lock'],
      ['docs/recipes/semaphore.md', 'Semaphore'],
      ['docs/recipes/pools.md', 'Pool'],
      ['docs/recipes/election.md', 'Election'],
      ['docs/recipes/queue.md', 'Queue'],
      ['docs/recipes/schedules.md', 'Schedules'],
      ['docs/recipes/config.md', 'Configuration'],
      ['docs/recipes/counter.md', 'Counter'],
      ['docs/recipes/runs.md', 'Run'],
      ['docs/recipes/barrier.md', 'Barrier'],
      ['docs/recipes/double-barrier.md', 'Double barrier'],
      ['docs/recipes/group.md', 'Group'],
      ['docs/recipes/transaction.md', 'Transaction'],
    ],
  },
  {
    title: 'Operating',
    pages: [
      ['docs/deploying.md', 'Deploying'],
      ['helm/postern/README.md', 'Chart'],
      ['helm/postern/ci/', 'Values for the chart'],
      ['helm/postern-sidecar/README.md', 'Chart of the sidecar'],
      ['helm/examples/', 'Examples for Kubernetes'],
      ['docs/settings.md', 'Settings'],
      ['docs/runbook.md', 'Runbook'],
      ['docs/performance.md', 'Performance'],
      ['docs/bench.md', 'Measurements'],
      ['docs/soak/README.md', 'Soak'],
    ],
  },
  {
    title: 'Guarantees',
    pages: [
      ['docs/guarantees.md', 'What is promised'],
      ['docs/torture.md', 'Torture'],
      ['docs/torture/', 'Torture reports'],
      ['docs/track-record.md', 'Track record'],
      ['docs/regressions.md', 'Named regressions'],
      ['test/conformance/README.md', 'Conformance of clients'],
    ],
  },
  {
    title: 'Design',
    pages: [
      ['docs/architecture.md', 'Architecture'],
      ['docs/protocol.md', 'Protocol'],
      ['docs/adr/', 'Decision records'],
      ['docs/interoperability.md', 'Other clients'],
      ['docs/zookeeper-client.md', 'Below the gateway'],
      ['CONTRIBUTING.md', 'Working on it'],
      ['CHANGELOG.md', 'Changelog'],
    ],
  },
].map(({ title, pages }) => ({
  title,
  pages: pages.map(([path = '', label = '']) => ({ source: path.replace(/\/$/, '/README.md'), label })),
}));

const FOLDERS = PARTS.flatMap(({ pages }) => pages)
  .map(({ source }) => source)
  .filter((source) => source.endsWith('/README.md') && !isFile(source))
  .map((source) => posix.dirname(source));

/** All pages by their Markdown files, from the root of the project; `text` is that of a page without a file. */
export const PAGES = new Map([
  ...PARTS.flatMap(({ pages }) => pages).map(({ source }) => /** @type {const} */ ([source, undefined])),
  ...FOLDERS.flatMap((folder) => filesIn(folder, '.md')).map((source) => /** @type {const} */ ([source, undefined])),
  ...FOLDERS.map((folder) => /** @type {const} */ ([posix.join(folder, 'README.md'), listingOf(folder)])),
]);

/** @param {string} source @returns {string} where the page or file lies in the site, without a `/` in front */
export function urlOf(source) {
  if (!PAGES.has(source)) return source;
  return source
    .replace(/^docs\//, '')
    .replace(/README\.md$/, 'index.md')
    .replace(/\.md$/, '.html')
    .toLowerCase();
}

/** @param {string} path from the root of the project */
export function isFile(path) {
  return statSync(join(ROOT, path), { throwIfNoEntry: false })?.isFile() ?? false;
}

/** @param {string} folder @param {string} [extension] */
function filesIn(folder, extension = '') {
  return readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(extension))
    .map((entry) => posix.join(folder, entry.name))
    .sort();
}

/** @param {string} folder @returns {string} Markdown: what is in it, by the first line of each file */
function listingOf(folder) {
  const title = PARTS.flatMap(({ pages }) => pages).find(({ source }) => posix.dirname(source) === folder)?.label;
  const items = filesIn(folder).flatMap((file) => {
    const first = /^(?:#|\/\/) (.+)\n/.exec(readFileSync(join(ROOT, file), 'utf8'))?.[1];
    const name = posix.basename(file);
    if (first === undefined) return [];
    return [file.endsWith('.md') ? `- [${first}](${name})` : `- [${name}](${name}): ${first}`];
  });
  return `# ${title}\n\n${items.join('\n')}\n`;
}
