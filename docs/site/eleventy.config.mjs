/** The documentation site: the Markdown files of the project as they are, in one layout (`page.11ty.mjs`). */
import { cpSync, writeFileSync } from 'node:fs';
import { posix } from 'node:path';
import { extend } from './markdown.mjs';
import { PAGES, urlOf } from './pages.mjs';

const OUTPUT = 'site';

/** @param {any} config Eleventy's */
export default function configure(config) {
  /** @type {import('./markdown.mjs').Findings} */
  const findings = { files: new Set(), sections: new Map(), problems: [] };
  config.amendLibrary('md', (/** @type {any} */ md) => extend(md, findings));
  config.addGlobalData('layout', 'page.11ty.mjs');
  config.addGlobalData('sections', () => findings.sections);
  config.addGlobalData('permalink', () => (/** @type {any} */ { page }) => permalinkOf(posix.normalize(page.inputPath)));
  for (const [source, text] of PAGES) if (text !== undefined) config.addTemplate(source, text);

  config.on('eleventy.after', () => {
    if (findings.problems.length > 0) throw new Error(findings.problems.join('\n'));
    for (const file of findings.files) cpSync(file, posix.join(OUTPUT, file));
    for (const asset of ['style.css', 'search.js']) cpSync(`docs/site/${asset}`, posix.join(OUTPUT, asset));
    writeFileSync(posix.join(OUTPUT, 'search-index.js'), `window.SECTIONS = ${JSON.stringify(indexOf(findings))};\n`);
  });

  return {
    dir: { input: '.', includes: 'docs/site', data: 'docs/site/data', output: OUTPUT },
    templateFormats: ['md'],
    markdownTemplateEngine: false, // the files are Markdown for every reader, and nothing else
  };
}

/** @param {string} source */
function permalinkOf(source) {
  if (!PAGES.has(source)) throw new Error(`no part of docs/site/pages.mjs lists ${source}`);
  return urlOf(source);
}

/**
 * In the order of the parts: of results that are equally good, the first are shown first.
 * @param {import('./markdown.mjs').Findings} findings
 */
function indexOf({ sections }) {
  return [...PAGES.keys()].flatMap((source) => {
    const ofPage = sections.get(source) ?? [];
    return ofPage.map(({ id, title, text }) => ({ page: ofPage[0]?.title, url: `${urlOf(source)}#${id}`, title, text }));
  });
}
