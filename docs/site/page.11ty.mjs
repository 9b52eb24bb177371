/** The layout of every page. It works without a script, from a web server below any path, and from the disk. */
import { posix } from 'node:path';
import { PARTS, urlOf } from './pages.mjs';

/** @param {any} data Eleventy's, with `sections` of eleventy.config.mjs @returns {string} */
export default function page({ content, page: { inputPath }, sections, pkg }) {
  const source = posix.normalize(inputPath);
  /** @type {import('./markdown.mjs').Section[]} */
  const found = sections.get(source) ?? [];
  const heading = found.find(({ level }) => level === 1)?.title;
  const title = heading ?? PARTS.flatMap(({ pages }) => pages).find((each) => each.source === source)?.label ?? source;
  const body = heading === undefined ? `<h1>${escaped(title)}</h1>\n${content}` : content;
  const to = (/** @type {string} */ url) => posix.relative(posix.dirname(urlOf(source)), url);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title === 'Postern' ? title : `${title} · Postern`)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${to('style.css')}">
<script src="${to('search.js')}" data-root="${to('.') || '.'}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the page</a>
<header>
<a class="brand" href="${to('index.html')}">Postern</a> <span>${escaped(pkg.version)}</span>
<a class="to-pages" href="#pages">All pages</a>
<search hidden><input type="search" aria-label="Search all pages" placeholder="Search" autocomplete="off">
<ol aria-live="polite"></ol></search>
</header>
<main id="content">
${body.replace('</h1>', () => `</h1>\n${contentsOf(found)}`)}
</main>
<nav id="pages" aria-label="All pages">
${PARTS.map((part) => navOf(part, source, to)).join('\n')}
</nav>
</body>
</html>
`;
}

/** @param {readonly import('./markdown.mjs').Section[]} sections */
function contentsOf(sections) {
  const shown = sections.filter(({ level }) => level === 2 || level === 3);
  if (shown.length < 2) return '';
  const items = shown.map(({ level, id, title }) => `<li class="l${level}"><a href="#${id}">${escaped(title)}</a></li>`);
  return `<details class="contents"><summary>On this page</summary><ul>${items.join('')}</ul></details>`;
}

/**
 * @param {(typeof PARTS)[number]} part
 * @param {string} source
 * @param {(url: string) => string} to
 */
function navOf({ title, pages }, source, to) {
  const items = pages.map((page) => {
    const current = page.source === source ? ' aria-current="page"' : '';
    return `<li><a href="${to(urlOf(page.source))}"${current}>${escaped(page.label)}</a></li>`;
  });
  return `<h2>${title}</h2>\n<ul>${items.join('')}</ul>`;
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
