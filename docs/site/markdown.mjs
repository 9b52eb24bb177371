/**
 * What the site makes of Markdown beyond what Eleventy does: the anchors of headings as GitHub gives them, links to
 * where the pages lie, tables that scroll by themselves, and the sections that the search reads.
 */
import { posix } from 'node:path';
import { isFile, PAGES, urlOf } from './pages.mjs';

/**
 * @typedef {{ level: number, id: string, title: string, text: string }} Section
 * @typedef {{ files: Set<string>, sections: Map<string, Section[]>, problems: string[] }} Findings  `files` are linked
 *   and not pages; `sections` are by the source of their page
 */

/** @param {any} md markdown-it, as Eleventy makes it @param {Findings} findings */
export function extend(md, findings) {
  md.core.ruler.push('postern', (/** @type {any} */ state) => {
    const source = posix.normalize(state.env.page.inputPath);
    findings.sections.set(source, sectionsOf(state.tokens));
    withoutEmptyHeadings(state.tokens);
    for (const token of state.tokens.flatMap((/** @type {any} */ token) => [token, ...(token.children ?? [])])) {
      const attribute = token.type === 'link_open' ? 'href' : 'src';
      const target = token.attrGet(attribute);
      if (target === null || /^[a-z]+:|^#/.test(target)) continue;
      const url = linkFrom(source, target, findings.files);
      if (url === undefined) findings.problems.push(`${source} links to ${target}, which is not there`);
      else token.attrSet(attribute, url);
    }
  });
  const { rules } = md.renderer;
  rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
  rules.table_close = () => '</table></div>\n';
}

/**
 * Gives each heading its id.
 * @param {any[]} tokens
 * @returns {Section[]}
 */
function sectionsOf(tokens) {
  /** @type {Section[]} */
  const sections = [];
  /** @type {Map<string, number>} */
  const taken = new Map();
  tokens.forEach((token, at) => {
    const inline = tokens[at + 1];
    if (token.type === 'heading_open') {
      const title = textOf(inline);
      const slug = slugOf(title);
      const before = taken.get(slug) ?? 0;
      taken.set(slug, before + 1);
      const id = before === 0 ? slug : `${slug}-${before}`;
      token.attrSet('id', id);
      sections.push({ level: Number(token.tag.slice(1)), id, title, text: '' });
    } else if (token.type === 'fence' || (token.type === 'inline' && tokens[at - 1]?.type !== 'heading_open')) {
      const section = sections.at(-1);
      if (section) section.text += `${token.type === 'fence' ? token.content : textOf(token)} `;
    }
  });
  return sections.map(({ text, ...section }) => ({ ...section, text: text.replace(/\s+/g, ' ').trim() }));
}

/** A cell without text in the first row of a table is no heading to anybody. @param {any[]} tokens */
function withoutEmptyHeadings(tokens) {
  tokens.forEach((token, at) => {
    if (token.type === 'th_open' && tokens[at + 1].content === '') token.tag = tokens[at + 2].tag = 'td';
  });
}

/** @param {any} inline */
function textOf(inline) {
  return inline.children.map((/** @type {any} */ { type, content }) => (type === 'softbreak' ? ' ' : content)).join('');
}

/** @param {string} title */
function slugOf(title) {
  return title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '')
    .replaceAll(' ', '-');
}

/** @param {string} source @param {string} target @param {Set<string>} files @returns {string | undefined} */
function linkFrom(source, target, files) {
  const [path = '', fragment] = target.split('#');
  const file = posix.join(posix.dirname(source), decodeURI(path)).replace(/\/$/, '');
  const found = [file, `${file}/README.md`].find((each) => PAGES.has(each) || isFile(each));
  if (found === undefined) return undefined;
  if (!PAGES.has(found)) files.add(found);
  const url = encodeURI(posix.relative(posix.dirname(urlOf(source)), urlOf(found)));
  return fragment === undefined ? url : `${url}#${fragment}`;
}
