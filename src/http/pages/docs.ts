/** The contract as a page: every operation with its parameters, body, answers and a curl line to try. */
import type { Answer } from '../frame/exchange.js';
import { ANY_TYPE, resolve, type OpenApi, type Operation, type Parameter, type Response } from '../contract/openapi.js';
import { inline, markdown } from './markdown.js';
import { escapeHtml, page } from './page.js';
import { explain, isObject, membersTable, typeOf } from './schema-view.js';

const EXAMPLE_BASE = 'http://localhost:7070';
/** The introduction describes problem answers once. */
const PROBLEM_TYPE = 'application/problem+json';

export function docsPage(api: OpenApi): Answer {
  const { info, tags, components } = api.document;
  const ofTag = (tag: string): Operation[] => api.operations.filter(({ source }) => source.tags.includes(tag));
  const schemas = Object.entries(components.schemas).filter(([, schema]) => isObject(schema));

  const navigation = tags.map(
    ({ name }) => `<h4>${escapeHtml(name)}</h4><ul>${ofTag(name).map(navigationItem).join('')}</ul>`,
  );
  const sections = tags.map(
    ({ name, description }) =>
      `<section><h2>${escapeHtml(name)}</h2>${markdown(description)}${ofTag(name)
        .map((one) => operationCard(api, one))
        .join('')}</section>`,
  );
  const objects = schemas.map(
    ([name, schema]) =>
      `<article class="operation" id="schema-${name}"><header><h3>${name}</h3></header>${markdown(schema.description ?? '')}${membersTable(api.document, schema, name.endsWith('Request') ? 'required' : 'always')}</article>`,
  );
  return page(
    `${info.title} ${info.version}`,
    `<div class="layout">
<nav aria-label="Operations"><strong>${escapeHtml(info.title)}</strong>
<p class="note">API version ${escapeHtml(info.version)}<br><a href="/openapi.yaml">openapi.yaml</a> · <a href="/openapi.json">openapi.json</a></p>
${navigation.join('\n')}<h4><a href="#objects">Objects</a></h4></nav>
<main><h1>${escapeHtml(info.title)}</h1>${markdown(info.description)}
${sections.join('\n')}
<section id="objects"><h2>Objects</h2>${objects.join('\n')}</section></main>
</div>`,
  );
}

function navigationItem({ operationId, method, source }: Operation): string {
  return `<li><a href="#${operationId}">${methodBadge(method)}<span>${escapeHtml(source.summary)}</span></a></li>`;
}

function methodBadge(method: string): string {
  return `<span class="method ${method.toLowerCase()}">${method}</span>`;
}

function operationCard(api: OpenApi, operation: Operation): string {
  const { operationId, method, template, source } = operation;
  return `<article class="operation" id="${operationId}">
<header><h3>${escapeHtml(source.summary)}</h3>${methodBadge(method)}<a class="path" href="#${operationId}">${escapeHtml(template)}</a></header>
${markdown(source.description ?? '')}
<pre><code>${escapeHtml(curlLine(operation))}</code></pre>
${parametersTable(api, operation.parameters)}${bodyTable(api, operation)}
<h4>Answers</h4>${answersTable(api, operation)}
</article>`;
}

function parametersTable(api: OpenApi, parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(
    (parameter) =>
      `<tr><td><code>${escapeHtml(parameter.name)}</code>${parameter.required === true ? ' <span class="required">required</span>' : ''}<br>` +
      `<span class="note">${parameter.in}</span></td><td>${typeOf(api.document, parameter.schema)}</td>` +
      `<td>${explain(api.document, { ...parameter.schema, description: parameter.description ?? '' })}</td></tr>`,
  );
  return `<h4>Parameters</h4><div class="scroll"><table><tr><th>name</th><th>type</th><th></th></tr>${rows.join('')}</table></div>`;
}

function bodyTable(api: OpenApi, { source, body, maxBodyBytes }: Operation): string {
  const most = Number.isFinite(maxBodyBytes) ? `<p class="note">At most ${maxBodyBytes} bytes.</p>` : '';
  if (body === 'raw') return `<h4>Body</h4>${markdown(source.requestBody?.description ?? '')}`;
  const schema = source.requestBody?.content['application/json']?.schema;
  return schema === undefined ? '' : `<h4>Body</h4>${most}${membersTable(api.document, schema, 'required')}`;
}

/** Successful answers in full; problems, most of which all operations share, folded away. */
function answersTable(api: OpenApi, { responses }: Operation): string {
  const rows = Object.entries(responses).map(([status, response]) => ({
    status,
    html: `<tr><td><code>${status}</code></td><td>${markdown(response.description)}${contentsOf(api, response)}</td></tr>`,
  }));
  const table = (some: typeof rows): string =>
    `<div class="scroll"><table>${some.map(({ html }) => html).join('')}</table></div>`;
  const problems = rows.filter(({ status }) => status >= '400');
  const codes = problems.map(({ status }) => `<code>${status}</code>`).join(' ');
  return `${table(rows.filter(({ status }) => status < '400'))}<details><summary>Problems: ${codes}</summary>${table(problems)}</details>`;
}

function contentsOf(api: OpenApi, { content = {}, headers = {} }: Response): string {
  const types = Object.entries(content)
    .filter(([type]) => type !== PROBLEM_TYPE)
    .map(([type, { schema = {}, example }]) => {
      const shown =
        example === undefined ? '' : `<pre><code>${escapeHtml(JSON.stringify(example, null, 2))}</code></pre>`;
      return `<p class="note"><code>${escapeHtml(type)}</code>: ${typeOf(api.document, schema)}</p>${shown}`;
    });
  const names = Object.keys(headers).filter((name) => name !== 'Trace-Id');
  const described = names.map((name) => {
    const { description = '' } = resolve<{ description?: string }>(api.document, headers[name] ?? {});
    return `<p class="note">Header <code>${escapeHtml(name)}</code>: ${inline(description)}</p>`;
  });
  return [...types, ...described].join('');
}

function curlLine({ method, template, parameters, source }: Operation): string {
  const path = template.replace(/\{(\w+)\}/g, (_whole, name: string) => exampleOf(parameters, name));
  const query = parameters
    .filter((one) => one.in === 'query' && one.required === true)
    .map(({ name }) => `${name}=${exampleOf(parameters, name)}`)
    .join('&');
  const verb = method === 'GET' ? '' : ` -X ${method}`;
  const stream = source.responses['200'] !== undefined && template.endsWith('/events') ? ' -N' : '';
  const token = parameters.some(({ name, required }) => name === 'Lease-Token' && required === true)
    ? ' -H "Lease-Token: $TOKEN"'
    : '';
  const raw = source.requestBody?.content[ANY_TYPE];
  const media = source.requestBody?.content['application/json'];
  const example = media?.example ?? Object.values(media?.examples ?? {}).at(-1)?.value;
  const json = example === undefined ? '' : ` -d '${JSON.stringify(example)}'`;
  const body = typeof raw?.example === 'string' ? ` --data-binary '${raw.example}'` : json;
  const target = query === '' ? `${EXAMPLE_BASE}${path}` : `'${EXAMPLE_BASE}${path}?${query}'`;
  return `curl${verb}${stream} ${target}${token}${body}`;
}

function exampleOf(parameters: readonly Parameter[], name: string): string {
  const example = parameters.find((one) => one.name === name)?.example;
  return typeof example === 'string' || typeof example === 'number' ? String(example) : name;
}
