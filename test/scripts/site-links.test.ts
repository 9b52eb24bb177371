/** What `npm run site` refuses. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
// @ts-expect-error -- plain JavaScript without declarations
import { linkProblems } from '../../scripts/lib/site-links.mjs';

async function problemsOf(pages: Record<string, string>): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-site-'));
  try {
    for (const [name, text] of Object.entries(pages)) {
      await mkdir(join(folder, name, '..'), { recursive: true });
      await writeFile(join(folder, name), text);
    }
    const { problems } = (await (linkProblems as (folder: string) => Promise<unknown>)(folder)) as {
      problems: string[];
    };
    return problems;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

test('a page links to pages, headings, files, and to other sites', async () => {
  const index = '<h1 id="top">…</h1><a href="recipes/lock.html#pitfalls">…</a><a href="#top">…</a>';
  const lock = '<h2 id="pitfalls">…</h2><a href="../index.html">…</a><a href="https://example.org/">…</a>';
  const pages = { 'index.html': `${index}<img src="images/a%20b.png">`, 'recipes/lock.html': lock };
  expect(await problemsOf({ ...pages, 'images/a b.png': '' })).toEqual([]);
});

test('a dead link is named with its page, also one to a heading', async () => {
  const index = '<h1 id="top">…</h1><a href="lock.html">…</a><a href="#bottom">…</a><a href="a/b.html#top">…</a>';
  expect(await problemsOf({ 'index.html': index, 'a/b.html': '' })).toEqual([
    'index.html links to lock.html, and there is no lock.html',
    'index.html links to #bottom, and index.html has no such heading',
    'index.html links to a/b.html#top, and a/b.html has no such heading',
  ]);
});

test('a page that loads anything from elsewhere is refused', async () => {
  const elsewhere = ['https://example.org/a.js', '//example.org/b.js'];
  const page = elsewhere.map((url) => `<script src="${url}"></script>`).join('\n');
  expect(await problemsOf({ 'index.html': page })).toEqual(
    elsewhere.map((url) => `index.html loads ${url} from elsewhere`),
  );
});
