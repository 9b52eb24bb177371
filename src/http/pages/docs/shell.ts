/** What all pages of the documentation have: the header, the list of all operations, and their style and script. */
import { methodBadge } from './method.js';
import type { OpenApi, Operation } from '../../contract/openapi.js';
import type { Source } from '../asset.js';
import { escapeHtml, page } from '../page.js';
import { INDEX, INTRODUCTION, OBJECTS, PROBLEMS, type Places } from './places.js';

export const STYLE_PATH = '/docs/docs.css';
export const SCRIPT_PATH = '/docs/docs.js';

const GENERAL = [
  [INDEX, 'Overview'],
  [INTRODUCTION, 'Introduction'],
  [PROBLEMS, 'Problems'],
  [OBJECTS, 'Objects'],
] as const;

export interface Shell {
  /** @param path of the page */
  (path: string, title: string, main: string): Source;
}

export function shellOf({ document: { info, tags }, operations }: OpenApi, places: Places): Shell {
  const lists = tags.map(({ name }) => ({
    name,
    path: places.tag(name),
    items: operations
      .filter(({ source }) => source.tags[0] === name)
      .map((one) => item(one, places))
      .join(''),
  }));
  return (path, title, main) => {
    const link = (to: string, name: string): string =>
      `<a href="${to}"${to === path ? ' aria-current="page"' : ''}>${escapeHtml(name)}</a>`;
    const general = GENERAL.map(([to, name]) => `<li>${link(to, name)}</li>`).join('');
    const ofTags = lists.map((one) => `<li>${link(one.path, one.name)}<ul>${one.items}</ul></li>`).join('\n');
    const full = path === INDEX ? `${info.title} ${info.version}` : `${title} · ${info.title} ${info.version}`;
    return page({
      title: full,
      style: STYLE_PATH,
      script: SCRIPT_PATH,
      body: `<a class="skip" href="#main">Skip to the content</a>
<div class="layout">
<header class="side-head"><a class="brand" href="${INDEX}">${escapeHtml(info.title)}</a> <span class="note">API ${escapeHtml(info.version)}</span>
<button type="button" id="menu" aria-expanded="false" aria-controls="navigation" hidden>Operations</button></header>
<nav aria-label="Operations">
<div id="filter-box" hidden><label for="filter">Filter operations <kbd>/</kbd></label><input id="filter" type="search" autocomplete="off" spellcheck="false" placeholder="name, path or words" aria-describedby="filter-status"><p id="filter-status" class="note" role="status"></p></div>
<div id="navigation"><ul class="general">${general}</ul>
<ul class="tags">
${ofTags}
</ul>
<p class="note"><a href="/openapi.yaml">openapi.yaml</a> · <a href="/openapi.json">openapi.json</a></p></div>
</nav>
<main id="main" tabindex="-1">
${main}
</main>
</div>`,
    });
  };
}

function item(operation: Operation, places: Places): string {
  const { method, template, source } = operation;
  const text = `<span>${escapeHtml(source.summary)} <small>${escapeHtml(template)}</small></span>`;
  return `<li><a href="${places.operation(operation)}">${methodBadge(method)}${text}</a></li>`;
}
