/** Whether every link of a site leads somewhere, and no page loads anything from elsewhere. */
import { readdir, readFile } from 'node:fs/promises';
import { join, posix, relative } from 'node:path';

const LINK = /<(\w+)\b[^>]*?\s(href|src)="([^"]*)"/g;
const ID = /\sid="([^"]*)"/g;
const ELSEWHERE = /^(?:[a-z][a-z0-9+.-]*:|\/\/)/i;

/**
 * @param {string} folder with the pages, as a web server would serve it
 * @returns {Promise<{ pages: number, problems: string[] }>} a line for each problem
 */
export async function linkProblems(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
  const pages = files.filter((file) => file.endsWith('.html'));
  const texts = new Map(
    await Promise.all(
      pages.map(async (page) => /** @type {const} */ ([page, await readFile(join(folder, page), 'utf8')])),
    ),
  );
  const ids = new Map([...texts].map(([page, text]) => [page, new Set([...text.matchAll(ID)].map(([, id]) => id))]));

  /** @param {string} page @param {string} tag @param {string} target @returns {string | undefined} */
  const problemOf = (page, tag, target) => {
    if (target === 'data:,') return undefined; // no icon, and no request for one
    if (ELSEWHERE.test(target)) return tag === 'a' ? undefined : `${page} loads ${target} from elsewhere`;
    const [path = '', fragment] = target.split('#').map(decodeURIComponent);
    const file = path === '' ? page : posix.join(posix.dirname(page), path);
    if (!files.includes(file)) return `${page} links to ${target}, and there is no ${file}`;
    if (fragment && !ids.get(file)?.has(fragment)) return `${page} links to ${target}, and ${file} has no such heading`;
    return undefined;
  };
  const problems = [...texts].flatMap(([page, text]) =>
    [...text.matchAll(LINK)].map(([, tag = '', , target = '']) =>
      problemOf(page, tag, target.replaceAll('&amp;', '&')),
    ),
  );
  return { pages: pages.length, problems: problems.filter((problem) => problem !== undefined) };
}
