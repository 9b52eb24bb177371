/** Schemas of the contract for people: a type with links, and the rules in words. */
import { resolve, type Document, type Schema } from '../../contract/openapi.js';
import { inline, markdown } from '../markdown.js';
import { escapeHtml } from '../page.js';

/** Schemas stand in a document, and those with a table of their own at a place. */
export interface Context {
  readonly document: Document;
  readonly places: { object(name: string): string | undefined };
}

/** The type of a value: `integer`, `list of Holder` … with a link to each object that has a table of its own. */
export function typeOf(context: Context, schema: Schema): string {
  const name = referencedName(schema);
  const target = resolved(context.document, schema);
  const place = name === undefined ? undefined : context.places.object(name);
  if (place !== undefined) return `<a href="${place}">${name}</a>`;
  if (target.type === 'array') return `list of ${typeOf(context, target.items ?? {})}`;
  const types = [target.type ?? 'any'].flat().join(' or ');
  return escapeHtml(target.format === 'date-time' ? `${types} (instant)` : types);
}

/** Whether a component gets a table of its own. */
export function isObject(schema: Schema): boolean {
  return schema.properties !== undefined || schema.allOf !== undefined || schema.anyOf !== undefined;
}

/** In a request's body: must be sent. In an answer: is always there. */
export type Requirement = 'required' | 'always';

/** A table of the members of an object; if it has alternatives or parts, of all of them. */
export function membersTable(context: Context, schema: Schema, requirement: Requirement): string {
  const target = resolved(context.document, schema);
  if (target.anyOf !== undefined) {
    const alternatives = target.anyOf.map((one) =>
      referencedName(one) === undefined ? membersTable(context, one, requirement) : typeOf(context, one),
    );
    return alternatives.join('<p class="note">or</p>');
  }
  const rows = membersOf(context.document, target).map(
    ({ name, member, required }) =>
      `<tr><td><code>${escapeHtml(name)}</code>${required ? ` <span class="required">${requirement}</span>` : ''}</td>` +
      `<td>${typeOf(context, member)}</td><td>${explain(context, member)}</td></tr>`,
  );
  if (rows.length === 0) return '<p class="note">No members.</p>';
  return table(['member', 'type', 'meaning'], rows);
}

/** @param rows each a `<tr>` */
export function table(head: readonly string[], rows: readonly string[]): string {
  const cells = head.map((name) => `<th scope="col">${name}</th>`).join('');
  return `<table><thead><tr>${cells}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

/** What a value means, and its rules. */
export function explain({ document }: Context, schema: Schema): string {
  const target = resolved(document, schema);
  const description = schema.description ?? target.description ?? '';
  const rules = rulesOf({ ...target, ...schema });
  const note = rules.length === 0 ? '' : `<p class="note">${rules.map(inline).join('; ')}</p>`;
  return `${isObject(target) && schema.description === undefined ? '' : markdown(description)}${note}`;
}

interface Member {
  name: string;
  member: Schema;
  required: boolean;
}

function membersOf(document: Document, schema: Schema): Member[] {
  const parts = (schema.allOf ?? []).map((part) => resolved(document, part));
  const inherited = parts.flatMap((part) => membersOf(document, part));
  const required = new Set(schema.required ?? []);
  const own = Object.entries(schema.properties ?? {});
  return [...inherited, ...own.map(([name, member]) => ({ name, member, required: required.has(name) }))];
}

function rulesOf(schema: Schema): string[] {
  const { minimum, maximum } = schema;
  const rules = [
    minimum === undefined ? undefined : maximum === undefined ? `at least ${minimum}` : `${minimum} to ${maximum}`,
    schema['x-rule'],
    schema['x-limit'] && 'at most `POSTERN_MAX_WAIT_MS`',
    schema['x-max-bytes'] && `at most ${schema['x-max-bytes']} bytes as JSON`,
    schema.maxLength && `at most ${schema.maxLength} characters`,
    schema.maxItems && `at most ${schema.maxItems}`,
    schema.enum?.map((value) => `\`${JSON.stringify(value)}\``).join(' or '),
    schema.const === undefined ? undefined : `always \`${JSON.stringify(schema.const)}\``,
    schema.default === undefined ? undefined : `default \`${JSON.stringify(schema.default)}\``,
  ];
  return rules.filter((rule) => typeof rule === 'string');
}

function resolved(document: Document, schema: Schema): Schema {
  return schema.$ref === undefined ? schema : resolve<Schema>(document, { $ref: schema.$ref });
}

function referencedName({ $ref = '' }: Schema): string | undefined {
  return /^#\/components\/schemas\/(\w+)$/.exec($ref)?.[1];
}
