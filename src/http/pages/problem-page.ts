/** The page that the `type` of a problem points to. */
import { ERROR_CODES, type ErrorCode } from '../../errors.js';
import type { Answer } from '../frame/exchange.js';
import { PROBLEM_GUIDE } from './problem-guide.js';
import { inline } from './markdown.js';
import { escapeHtml, page } from './page.js';

export function problemPage(code: ErrorCode): Answer {
  const { status, title, retryable } = ERROR_CODES[code];
  const { meaning, happened, advice } = PROBLEM_GUIDE[code];
  const facts = [
    `status ${status}`,
    `code ${code}`,
    retryable ? 'retryable, unless the answer says otherwise' : 'not retryable',
  ];
  return page(
    `${title} (${code})`,
    `<main class="narrow">
<h1>${escapeHtml(title)}</h1>
<ul class="facts">${facts.map((fact) => `<li>${escapeHtml(fact)}</li>`).join('')}</ul>
<h4>What it means</h4><p>${inline(meaning)}</p>
<h4>Whether anything was done</h4><p>${inline(happened)}</p>
<h4>What to do</h4><p>${inline(advice)}</p>
<p class="note"><a href="/docs">The whole contract</a></p>
</main>`,
  );
}
