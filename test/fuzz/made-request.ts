/**
 * Requests made from the contract: an operation, values for everything that it takes, and then some of it made wrong.
 *
 * What is made wrong says whether it must be refused, or whether that is for the gateway to decide; a request with
 * nothing wrong must not be refused as bad input.
 */
import { openApi, pointer, type Operation, type Parameter } from '../../src/http/contract/openapi.js';
import { createSchemaCompiler } from '../../src/http/contract/schemas.js';
import type { Chance } from './chance.js';
import type { Memory } from './memory.js';
import { breakages } from './breakages.js';
import { LIMITS, NAMESPACES, type Draft, type PrincipalName } from './draft.js';
import { keeping, NAMES } from './values.js';

export interface MadeRequest extends Draft {
  readonly path: string;
  readonly raw: Buffer;
}

const { document, operations } = openApi();
const compiler = createSchemaCompiler(document, LIMITS, { allErrors: false });

export function makeRequest(chance: Chance, memory: Memory, keys: Record<PrincipalName, string>): MadeRequest {
  const draft = wellFormed(chance, memory, keys);
  draft.headers.push(['Host', 'localhost'], ['Authorization', `Bearer ${keys[draft.principal]}`]);
  for (let left = chance.percent(45) ? 0 : chance.integer(1, chance.percent(20) ? 4 : 1); left > 0; left -= 1)
    chance.pick(breakages)(draft, chance, memory);
  if (draft.bytes === undefined && draft.operation.body === 'json' && !isValidBody(draft.operation, draft.json))
    draft.mustRefuse ??= 'the body breaks its schema';
  // Then it is perhaps another operation, or another body, and what was wrong is right.
  if (draft.method !== draft.operation.method || draft.target !== undefined || draft.framing !== undefined)
    draft.mustRefuse = undefined;
  if (!/^[A-Z]+$/.test(draft.method)) draft.mustRefuse = 'the method is no word';
  return finish(draft, chance);
}

function wellFormed(chance: Chance, memory: Memory, keys: Draft['keys']): Draft {
  const operation = chance.pick(operations);
  const lease = chance.percent(90) ? memory.lease(chance) : undefined;
  const draft: Draft = {
    operation,
    method: operation.method,
    params: {},
    query: [],
    headers: [],
    json: undefined,
    bytes: undefined,
    target: undefined,
    framing: undefined,
    principal: (lease?.principal as PrincipalName | undefined) ?? 'root',
    keys,
    namespace: lease?.namespace ?? chance.pick(NAMESPACES),
    wrong: [],
    mustRefuse: undefined,
  };
  for (const parameter of operation.parameters) addParameter(draft, parameter, lease?.leaseToken, chance, memory);
  if (operation.body === 'json') draft.json = bodyOf(operation, draft, chance, memory);
  if (operation.body === 'raw') draft.bytes = Buffer.from(chance.text('\0\n{}a\xff', chance.integer(0, 40)), 'latin1');
  if (draft.json !== undefined) draft.headers.push(['Content-Type', 'application/json']);
  if (operation.types.includes('text/event-stream') && chance.percent(10))
    draft.headers.push(['Accept', 'text/event-stream']);
  return draft;
}

function addParameter(
  draft: Draft,
  parameter: Parameter,
  leaseToken: string | undefined,
  chance: Chance,
  memory: Memory,
): void {
  const { name, in: place, required, schema } = parameter;
  if (name === 'Namespace') {
    if (draft.namespace !== 'default' || chance.percent(30)) draft.headers.push([name, draft.namespace]);
    return;
  }
  if (name === 'Lease-Token') {
    if (leaseToken !== undefined) draft.headers.push([name, leaseToken]);
    else draft.wrong.push('there is no lease yet');
    return;
  }
  if (required !== true && !chance.percent(35)) return;
  // The header of a body that has a requestId must say the same.
  if (name === 'Idempotency-Key') return;
  const known = name === 'If-Match' || name === 'If-None-Match' ? memory.recall('etag', chance) : undefined;
  const value =
    typeof known === 'string' && place === 'header' && schema.enum === undefined && chance.percent(70)
      ? known
      : name === 'name' && chance.percent(90)
        ? chance.pick(NAMES.slice(0, 5))
        : keeping(schema, name, chance, memory);
  const text = String(value);
  // The routes know it as a word of theirs, and lead elsewhere.
  if (name === 'leaseId' && text === 'self') draft.wrong.push('a fixed segment as the id');
  if (place === 'path') draft.params[name] = encoded(text, parameter, chance);
  else if (place === 'query') draft.query.push([name, encodeURIComponent(text)]);
  // Neither can be said in a header; both count as a header that is not there.
  else if (/^[!-~]([ -~]*[!-~])?$/.test(text)) draft.headers.push([name, text]);
}

function encoded(text: string, { 'x-rest': rest }: Parameter, chance: Chance): string {
  const parts = text.split('/').map((part) => (chance.percent(10) ? percentEncoded(part) : encodeURIComponent(part)));
  return parts.join(rest === true && chance.percent(50) ? '/' : '%2F');
}

function percentEncoded(text: string): string {
  return [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}

function bodyOf(operation: Operation, draft: Draft, chance: Chance, memory: Memory): unknown {
  const { schema = {} } = operation.source.requestBody?.content['application/json'] ?? {};
  const body = keeping(schema, '', chance, memory) as Record<string, unknown>;
  const tokenAt = draft.headers.findIndex(([name]) => name === 'Lease-Token');
  // A lease of one call, and the lease of a token, exclude each other; and one needs a requestId.
  if ('lease' in body) {
    if (tokenAt !== -1) draft.headers.splice(tokenAt, 1);
    body['requestId'] ??= chance.pick(['r1', 'r2']);
  }
  return body;
}

function isValidBody(operation: Operation, json: unknown): boolean {
  if (json === undefined) return true;
  const at = operation.pointer + pointer('requestBody', 'content', 'application/json', 'schema');
  return compiler.at(at)(structuredClone(json));
}

function finish(draft: Draft, chance: Chance): MadeRequest {
  const { operation, method, params, query, headers } = draft;
  const filled = operation.template.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? '');
  const asked = query.map(([name, value]) => `${name}=${value}`).join('&');
  const path = draft.target ?? (asked === '' ? filled : `${filled}?${asked}`);
  const body = draft.bytes ?? (draft.json === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(draft.json)));
  const chunked = draft.framing === undefined && body.length > 0 && chance.percent(10);
  const framing =
    draft.framing ??
    (chunked ? ['Transfer-Encoding: chunked'] : body.length > 0 ? [`Content-Length: ${body.length}`] : []);
  const head = [`${method} ${path} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`), ...framing];
  const sent = chunked ? chunks(body, chance) : body;
  return { ...draft, path, raw: Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), sent]) };
}

function chunks(body: Buffer, chance: Chance): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const part = body.subarray(at, at + chance.integer(1, body.length));
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
    at += part.length;
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}
