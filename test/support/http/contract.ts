/**
 * Checks an answer against `openapi.yaml`: that its status is one the operation may give, and that its headers, type
 * and body are as described. Whatever a test is about, its answers are checked, so the contract cannot drift from the
 * gateway.
 */
import {
  ANY_TYPE,
  openApi,
  pointer,
  resolve,
  type Operation,
  type Response,
} from '../../../src/http/contract/openapi.js';
import { Router } from '../../../src/http/contract/router.js';
import { securityComplaints } from './security-headers.js';
import { createSchemaCompiler, type SchemaCompiler } from '../../../src/http/contract/schemas.js';
import type { ValidateFunction } from 'ajv/dist/2020.js';

export interface CheckedAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** Parsed when it is JSON, text otherwise; undefined or empty when there was none. */
  body: unknown;
}

interface ObjectSchema {
  properties?: Record<string, unknown>;
  allOf?: ({ $ref: string } | ObjectSchema)[];
}

const { document, operations } = openApi();
const router = new Router(operations);
const compiler: SchemaCompiler = createSchemaCompiler(
  document,
  { maxWaitMs: Number.MAX_SAFE_INTEGER },
  { allErrors: true },
);
const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM_MEMBERS = new Set(
  ['Problem', 'NotReadyProblem'].flatMap((name) => membersOf({ $ref: `#/components/schemas/${name}` })),
);
const validators = new Map<string, ValidateFunction>();

function membersOf(schema: { $ref: string } | ObjectSchema): string[] {
  const { properties, allOf } = resolve<ObjectSchema>(document, schema);
  return [...Object.keys(properties ?? {}), ...(allOf ?? []).flatMap(membersOf)];
}

/** Fails the test when the answer is not one that the contract promises for this request. */
export function expectContract(method: string, path: string, answer: CheckedAnswer): void {
  const complaints = complaintsOf(method.toUpperCase(), path, answer);
  if (complaints.length === 0) return;
  throw new Error(
    `${method} ${path} answered ${answer.status} against the contract:\n- ${complaints.join('\n- ')}\n${JSON.stringify(answer.body)}`,
  );
}

function complaintsOf(method: string, path: string, answer: CheckedAnswer): string[] {
  const match = router.match(method, segmentsOf(path));
  const operationId = match !== undefined && 'operation' in match ? match.operation.operationId : undefined;
  const described =
    match === undefined && answer.status === 308
      ? slashComplaints(method, path, answer)
      : descriptionComplaints(match, method, answer);
  return [...securityComplaints(operationId, answer), ...described];
}

/** A page whose address has a slash too many is the only thing that answers outside of the contract. */
function slashComplaints(method: string, path: string, { headers }: CheckedAnswer): string[] {
  const page = `/${segmentsOf(path).slice(0, -1).map(encodeURIComponent).join('/')}`;
  const match = router.match(method, segmentsOf(page));
  const isPage = match !== undefined && 'operation' in match && match.operation.types.includes('text/html');
  return isPage && headers['location'] === page
    ? []
    : [`308 leads to ${String(headers['location'])}, and should to a page`];
}

function descriptionComplaints(match: ReturnType<Router['match']>, method: string, answer: CheckedAnswer): string[] {
  if (match === undefined) return unmatchedComplaints(answer, [404], method);
  if ('allow' in match)
    return method === 'OPTIONS' ? optionsComplaints(answer) : unmatchedComplaints(answer, [405], method);
  const { operation } = match;
  const described = operation.responses[String(answer.status)];
  if (described === undefined) return [`${operation.operationId} has no response ${answer.status}`];
  const at = pointerOf(operation, answer.status);
  return [
    ...headerComplaints(at, described, answer),
    ...contentComplaints(at, described, answer, method === 'HEAD'),
    ...retryComplaints(operation, answer),
  ];
}

/** What is refused before an operation is known: only the listed statuses, and those of a bad request line. */
function unmatchedComplaints(answer: CheckedAnswer, statuses: readonly number[], method: string): string[] {
  const names: Record<number, string> = {
    400: 'BadRequest',
    403: 'Forbidden',
    404: 'NotFound',
    405: 'MethodNotAllowed',
    414: 'UriTooLong',
    431: 'HeadersTooLarge',
    503: 'Unavailable',
  };
  if (![...statuses, 400, 403, 414, 431, 503].includes(answer.status))
    return [`expected ${statuses.join(' or ')} for a path or method outside the contract`];
  const at = pointer('components', 'responses', names[answer.status] as string);
  const described = resolve<Response>(document, { $ref: `#${at}` });
  return [...headerComplaints(at, described, answer), ...contentComplaints(at, described, answer, method === 'HEAD')];
}

function optionsComplaints(answer: CheckedAnswer): string[] {
  if (answer.status !== 204) return unmatchedComplaints(answer, [], 'OPTIONS');
  return answer.headers['allow'] === undefined ? ['the answer to OPTIONS has no Allow'] : [];
}

function headerComplaints(at: string, described: Response, { headers }: CheckedAnswer): string[] {
  const complaints = Object.keys(described.headers ?? {}).flatMap((name) => {
    const header = resolve<{ required?: boolean; schema: { type?: string } }>(
      document,
      described.headers?.[name] as never,
    );
    const value = headers[name.toLowerCase()];
    if (value === undefined) return header.required === true ? [`the header ${name} is missing`] : [];
    const typed = header.schema.type === 'integer' ? Number(value) : value;
    return schemaComplaints(`header ${name}`, headerPointer(at, described, name), typed);
  });
  return complaints;
}

function retryComplaints({ operationId, retryable }: Operation, { body }: CheckedAnswer): string[] {
  return !retryable && (body as { retryable?: boolean } | undefined)?.retryable === true
    ? [`${operationId} is never to be repeated, and the problem says retryable`]
    : [];
}

/** Problems may get further members, so clients take any; of those that there are each is described. */
function memberComplaints(body: unknown): string[] {
  return [...rulesComplaints(body as Record<string, unknown>), ...undescribedMembers(body)];
}

/** Whoever fills in a form shows each broken rule beside its field. */
function rulesComplaints(body: Record<string, unknown>): string[] {
  if (body['code'] !== 'invalid') return [];
  return ['field', 'in', 'errors']
    .filter((member) => !(member in body))
    .map((member) => `an invalid value without "${member}"`);
}

function undescribedMembers(body: unknown): string[] {
  return Object.keys(body as object)
    .filter((member) => !PROBLEM_MEMBERS.has(member))
    .map((member) => `the contract does not describe the member "${member}" of a problem`);
}

function headerPointer(at: string, described: Response, name: string): string {
  const header = described.headers?.[name];
  const own = header !== undefined && '$ref' in header ? header.$ref.slice(1) : at + pointer('headers', name);
  return own + pointer('schema');
}

function contentComplaints(
  at: string,
  described: Response,
  { headers, body }: CheckedAnswer,
  isHead: boolean,
): string[] {
  const types = Object.keys(described.content ?? {});
  const isEmpty =
    body === undefined || body === '' || (typeof body === 'object' && body !== null && Object.keys(body).length === 0);
  if (types.length === 0) return isEmpty ? [] : ['there is a body, and the contract promises none'];
  const type = String(headers['content-type'] ?? '').split(';')[0] ?? '';
  const promised = types.includes(type) || type === '' ? type : types.find((one) => one === ANY_TYPE);
  if (promised === undefined || !types.includes(promised))
    return [`the type is "${type}"; the contract promises ${types.join(' or ')}`];
  if (isHead) return isEmpty ? [] : ['the answer to HEAD has a body'];
  if (promised === ANY_TYPE) return [];
  return [
    ...schemaComplaints('body', at + pointer('content', promised, 'schema'), body),
    ...(promised === PROBLEM_TYPE ? memberComplaints(body) : []),
  ];
}

function schemaComplaints(what: string, at: string, value: unknown): string[] {
  let validate = validators.get(at);
  if (validate === undefined) validators.set(at, (validate = compiler.at(at)));
  // Validation fills in defaults; the test shall see what came.
  if (validate(structuredClone(value))) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message }) => `${what}${instancePath} ${message ?? 'is not valid'}`,
  );
}

/** Where the description stands: at the operation, or at the component that it refers to. */
function pointerOf(operation: Operation, status: number): string {
  const own = operation.source.responses[String(status)];
  if (own !== undefined && '$ref' in own) return own.$ref.slice(1);
  return operation.pointer + pointer('responses', String(status));
}

function segmentsOf(path: string): string[] {
  const [withoutQuery = ''] = path.replace(/^https?:\/\/[^/?#]*/i, '').split('?');
  return withoutQuery.slice(1).split('/').map(decoded);
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // the gateway answers 400 to it
  }
}
