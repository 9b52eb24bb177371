/** The page that the `type` of a problem points to. */
import { ERROR_CODES, type ErrorCode } from '../../errors.js';
import type { Source } from './asset.js';
import { PROBLEMS } from './docs/places.js';
import { STYLE_PATH } from './docs/shell.js';
import { PROBLEM_GUIDE } from './problem-guide.js';
import { inline } from './markdown.js';
import { escapeHtml, page } from './page.js';

export function problemPage(code: ErrorCode): Source {
  const { status, title, retryable } = ERROR_CODES[code];
  const { meaning, happened, advice } = PROBLEM_GUIDE[code];
  const facts = [
    `status ${status}`,
    `code ${code}`,
    retryable ? 'retryable, unless the answer says otherwise' : 'not retryable',
  ];
  return page({
    title: `${title} (${code})`,
    style: STYLE_PATH,
    body: `<main class="narrow">
<h1>${escapeHtml(title)}</h1>
<ul class="facts">${facts.map((fact) => `<li>${escapeHtml(fact)}</li>`).join('')}</ul>
<h2>What it means</h2><p>${inline(meaning)}</p>
<h2>Whether anything was done</h2><p>${inline(happened)}</p>
<h2>What to do</h2><p>${inline(advice)}</p>
<p class="note"><a href="${PROBLEMS}">All problems</a> · <a href="/docs">The whole contract</a></p>
</main>`,
  });
}
