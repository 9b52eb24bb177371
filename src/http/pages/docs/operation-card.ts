/** An operation for people: what it does, a request to try, its parameters, body and answers. */
import { resolve, type Operation, type Parameter, type Response } from '../../contract/openapi.js';
import { inline, markdown } from '../markdown.js';
import { escapeHtml } from '../page.js';
import { exampleBox, examplesOf } from './example.js';
import { methodBadge } from './method.js';
import { PROBLEMS } from './places.js';
import { explain, membersTable, table, typeOf, type Context } from './schema-view.js';

/** The introduction describes problem answers once. */
const PROBLEM_TYPE = 'application/problem+json';

export interface CardContext extends Context {
  /** The statuses of problems that mean the same at most operations: those are explained on a page of their own. */
  readonly common: ReadonlyMap<string, Response>;
}

export function operationCard(context: CardContext, operation: Operation): string {
  const { operationId, method, template, source } = operation;
  return `<article class="operation" id="${operationId}">
<header><h2><a href="#${operationId}">${escapeHtml(source.summary)}</a></h2><p class="request">${methodBadge(method)}<code class="path">${escapeHtml(template)}</code></p></header>
${markdown(source.description ?? '')}
${examplesOf(operation)
  .map((example) => exampleBox(operation, example))
  .join('\n')}
${parametersTable(context, operation.parameters)}${bodyTable(context, operation)}
<h3>Answers</h3>${answers(context, operation)}
</article>`;
}

function parametersTable(context: Context, parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(
    (parameter) =>
      `<tr><td><code>${escapeHtml(parameter.name)}</code>${parameter.required === true ? ' <span class="required">required</span>' : ''}` +
      ` <span class="note">${parameter.in}</span></td><td>${typeOf(context, parameter.schema)}</td>` +
      `<td>${explain(context, { ...parameter.schema, description: parameter.description ?? '' })}</td></tr>`,
  );
  return `<h3>Parameters</h3>${table(['name', 'type', 'meaning'], rows)}`;
}

function bodyTable(context: Context, { source, body, maxBodyBytes }: Operation): string {
  const most = Number.isFinite(maxBodyBytes) ? `<p class="note">At most ${maxBodyBytes} bytes.</p>` : '';
  if (body === 'raw') return `<h3>Body</h3>${markdown(source.requestBody?.description ?? '')}`;
  const schema = source.requestBody?.content['application/json']?.schema;
  return schema === undefined ? '' : `<h3>Body</h3>${most}${membersTable(context, schema, 'required')}`;
}

/** Successful answers in full, its own problems folded away; for those of all operations a link. */
function answers(context: CardContext, { responses }: Operation): string {
  const entries = Object.entries(responses);
  const rowsOf = (some: typeof entries): string =>
    table(
      ['status', 'answer'],
      some.map(([status, one]) => answerRow(context, status, one)),
    );
  const isCommon = ([status, one]: [string, Response]): boolean => context.common.get(status) === one;
  const own = entries.filter((entry) => entry[0] >= '400' && !isCommon(entry));
  const common = entries.filter(isCommon);
  const codes = (some: typeof entries, form: (status: string) => string): string =>
    some.map(([status]) => form(status)).join(' ');
  const folded =
    own.length === 0
      ? ''
      : `<details><summary>Problems of its own: ${codes(own, (status) => `<code>${status}</code>`)}</summary>${rowsOf(own)}</details>`;
  const links = codes(common, (status) => `<a href="${PROBLEMS}#status-${status}">${status}</a>`);
  return `${rowsOf(entries.filter(([status]) => status < '400'))}${folded}${links === '' ? '' : `<p class="note">As most operations: ${links}</p>`}`;
}

function answerRow(context: Context, status: string, response: Response): string {
  return `<tr><td><code>${status}</code></td><td>${markdown(response.description)}${contentsOf(context, response)}</td></tr>`;
}

function contentsOf(context: Context, { content = {}, headers = {} }: Response): string {
  const types = Object.entries(content)
    .filter(([type]) => type !== PROBLEM_TYPE)
    .map(([type, { schema = {}, example }]) => {
      const shown =
        example === undefined ? '' : `<pre><code>${escapeHtml(JSON.stringify(example, null, 2))}</code></pre>`;
      return `<p class="note"><code>${escapeHtml(type)}</code>: ${typeOf(context, schema)}</p>${shown}`;
    });
  const names = Object.keys(headers).filter((name) => name !== 'Trace-Id');
  const described = names.map((name) => {
    const { description = '' } = resolve<{ description?: string }>(context.document, headers[name] ?? {});
    return `<p class="note">Header <code>${escapeHtml(name)}</code>: ${inline(description)}</p>`;
  });
  return [...types, ...described].join('');
}
