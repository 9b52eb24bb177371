/**
 * The contract as pages: an index, the introduction, the problems, the objects that several tags use, and a page for
 * each tag. Each is made when it is first asked for.
 */
import { ERROR_CODES } from '../../../errors.js';
import type { OpenApi, Operation, Response } from '../../contract/openapi.js';
import type { Source } from '../asset.js';
import { inline, markdown } from '../markdown.js';
import { escapeHtml } from '../page.js';
import { PROBLEM_GUIDE } from '../problem-guide.js';
import { methodBadge } from './method.js';
import { operationCard, type CardContext } from './operation-card.js';
import { INDEX, INTRODUCTION, OBJECTS, placesOf, PROBLEMS, type Places } from './places.js';
import { membersTable, table } from './schema-view.js';
import { shellOf, type Shell } from './shell.js';

/** How each page is made, by the part of its path behind `/docs/`; empty for `/docs` itself. */
export type DocsSite = ReadonlyMap<string, () => Source>;

interface Site extends CardContext {
  readonly api: OpenApi;
  readonly places: Places;
  readonly shell: Shell;
}

export function docsSite(api: OpenApi): DocsSite {
  const places = placesOf(api);
  const { document, operations } = api;
  const site: Site = { api, document, places, shell: shellOf(api, places), common: commonProblems(operations) };
  const below = ([path, make]: [string, () => Source]): [string, () => Source] => [path.slice(INDEX.length + 1), make];
  const pages: [string, () => Source][] = [
    [INDEX, () => indexPage(site)],
    [INTRODUCTION, () => introduction(site)],
    ...document.tags.map((tag): [string, () => Source] => [places.tag(tag.name), () => tagPage(site, tag)]),
    [OBJECTS, () => objectsPage(site)],
    [PROBLEMS, () => problemsPage(site)],
  ];
  return new Map(pages.map(below));
}

/** By status, the response that most operations have. */
function commonProblems(operations: readonly Operation[]): ReadonlyMap<string, Response> {
  const counts = new Map<Response, number>();
  for (const { responses } of operations)
    for (const one of Object.values(responses)) counts.set(one, (counts.get(one) ?? 0) + 1);
  const found = operations.flatMap(({ responses }) =>
    Object.entries(responses).filter(
      ([status, one]) => status >= '400' && (counts.get(one) ?? 0) > operations.length / 2,
    ),
  );
  return new Map(found);
}

/** What the contract says first, the operations by tag, and the objects: old links to them end here. */
function indexPage({ api, places, shell }: Site): Source {
  const { info, tags, components } = api.document;
  const [idea] = info.description.split(/^(?=## (?!The idea))/m);
  const sections = tags.map(({ name }) => {
    const rows = api.operations
      .filter(({ source }) => source.tags[0] === name)
      .map(
        (one) =>
          `<tr id="${one.operationId}" data-moved><td>${methodBadge(one.method)}</td><td><a href="${places.operation(one)}">${escapeHtml(one.source.summary)}</a></td><td><code>${escapeHtml(one.template)}</code></td></tr>`,
      );
    return `<h3><a href="${places.tag(name)}">${escapeHtml(name)}</a></h3>${table(['method', 'operation', 'path'], rows)}`;
  });
  const objects = Object.keys(components.schemas).flatMap((name) => {
    const place = places.object(name);
    return place === undefined ? [] : [`<li id="schema-${name}" data-moved><a href="${place}">${name}</a></li>`];
  });
  return shell(
    INDEX,
    info.title,
    `<h1>${escapeHtml(info.title)}</h1>
<div class="lead">${markdown(idea ?? '')}</div>
<p>What requests and answers have in common is in the <a href="${INTRODUCTION}">introduction</a>; what can go wrong, and what to do then, among the <a href="${PROBLEMS}">problems</a>.</p>
<h2 id="operations">Operations</h2>
<div class="operations-table">${sections.join('\n')}</div>
<h2 id="objects">Objects</h2>
<ul class="columns">${objects.join('')}</ul>`,
  );
}

function introduction({ document, shell }: Site): Source {
  return shell(INTRODUCTION, 'Introduction', `<h1>Introduction</h1>${markdown(document.info.description)}`);
}

function tagPage(site: Site, { name, description }: { name: string; description: string }): Source {
  const path = site.places.tag(name);
  const cards = site.api.operations
    .filter(({ source }) => source.tags[0] === name)
    .map((one) => operationCard(site, one));
  const names = site.places.objectsAt(path);
  const objects = names.length === 0 ? '' : `<h2 id="objects">Objects</h2>${objectCards(site, names)}`;
  return site.shell(
    path,
    name,
    `<h1>${escapeHtml(name)}</h1><div class="lead">${markdown(description)}</div>
<section id="session" class="session" aria-label="Requests from this page" hidden></section>
${cards.join('\n')}
${objects}`,
  );
}

function objectsPage(site: Site): Source {
  const lead = '<p class="lead">What several parts of the contract use. Objects of one part are on its page.</p>';
  return site.shell(
    OBJECTS,
    'Objects',
    `<h1>Objects</h1>${lead}${objectCards(site, site.places.objectsAt(OBJECTS), 2)}`,
  );
}

function objectCards(site: Site, names: readonly string[], level = 3): string {
  const cards = names.map((name) => {
    const schema = site.document.components.schemas[name] ?? {};
    const members = membersTable(site, schema, name.endsWith('Request') ? 'required' : 'always');
    const heading = `<h${level}><a href="#schema-${name}">${name}</a></h${level}>`;
    return `<article class="operation" id="schema-${name}">${heading}${markdown(schema.description ?? '')}${members}</article>`;
  });
  return cards.join('\n');
}

/** Every code, and the statuses that most operations may answer. */
function problemsPage({ shell, common }: Site): Source {
  const codes = Object.entries(ERROR_CODES).map(
    ([code, { status, retryable }]) =>
      `<tr><td><code>${status}</code></td><td><a href="/problems/${code}">${code}</a></td><td>${retryable ? 'yes' : 'no'}</td><td>${inline(PROBLEM_GUIDE[code as keyof typeof PROBLEM_GUIDE].meaning)}</td></tr>`,
  );
  const statuses = [...common]
    .sort(([one], [other]) => Number(one) - Number(other))
    .map(
      ([status, { description }]) =>
        `<tr id="status-${status}"><td><code>${status}</code></td><td>${markdown(description)}</td></tr>`,
    );
  return shell(
    PROBLEMS,
    'Problems',
    `<h1>Problems</h1><p class="lead">Errors are <code>application/problem+json</code> (RFC 9457). The <code>code</code> is stable; <code>retryable</code> in an answer says whether the same request may succeed later.</p>
<h2 id="codes">Codes</h2>${table(['status', 'code', 'retryable', 'meaning'], codes)}
<h2 id="statuses">What most operations may answer</h2>${table(['status', 'answer'], statuses)}`,
  );
}
