/** The contract as data: `openapi.yaml`, read once, and the parts of it that serving a request needs. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ROOT } from '../../root.js';
import type { Scope } from '../frame/exchange.js';
import { documentOf } from './document.js';

const FILE = fileURLToPath(new URL('openapi.yaml', ROOT));

/** The contract's media type for bytes of any type. */
export const ANY_TYPE = '*/*';

export const METHODS = ['get', 'post', 'put', 'delete'] as const;

/** The keywords of JSON Schema that this code reads; ajv handles all of them. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  allOf?: Schema[];
  anyOf?: Schema[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  'x-default'?: unknown;
  'x-rule'?: string;
  'x-limit'?: string;
  'x-max-bytes'?: number;
  'x-secret'?: boolean;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
  schema: Schema;
  example?: unknown;
  /** On a path's last parameter: it takes all remaining segments, joined by `/`. */
  'x-rest'?: boolean;
}

export interface MediaType {
  schema?: Schema;
  example?: unknown;
  examples?: Record<string, { summary?: string; value?: unknown }>;
}

export interface RequestBody {
  description?: string;
  required?: boolean;
  content: Record<string, MediaType>;
}

export interface Response {
  description: string;
  headers?: Record<string, { description?: string; required?: boolean; schema: Schema } | Reference>;
  content?: Record<string, MediaType>;
}

export interface Reference {
  $ref: string;
}

export interface OperationObject {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  security?: unknown[];
  parameters?: (Parameter | Reference)[];
  requestBody?: RequestBody;
  responses: Record<string, Response | Reference>;
  'x-kind'?: string;
  /** The required scope for the operation's kind, or a list of which one is enough. */
  'x-scope'?: Scope | Scope[];
  /** Where the body contains names (`names/*`), and which scope each requires. */
  'x-names'?: Record<string, Scope | Scope[]>;
  'x-retryable'?: boolean;
  'x-rate-limited'?: boolean;
  /** Its problems also have FleetLock's `kind` and `value`. */
  'x-kind-and-value'?: boolean;
  /** Lower than the replica's largest body, where no meaningful body comes near that. */
  'x-max-body-bytes'?: number;
}

export type PathItem = { parameters?: (Parameter | Reference)[] } & Partial<
  Record<(typeof METHODS)[number], OperationObject>
>;

export interface Document {
  info: { title: string; version: string; description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, PathItem>;
  components: { schemas: Record<string, Schema> };
}

/** One operation, with its references to parameters and responses resolved. */
export interface Operation {
  readonly operationId: string;
  /** Upper case. */
  readonly method: string;
  /** The path in the contract: `/v1/locks/{name}`. Bounded, so it may be a metric label. */
  readonly template: string;
  /** The JSON pointer of this operation in the document. */
  readonly pointer: string;
  /** Served without a credential. */
  readonly isPublic: boolean;
  /** The kind that scopes of credentials refer to; empty for public operations. */
  readonly kind: string;
  /** The caller needs one of these; empty: any credential will do. */
  readonly scopes: readonly Scope[];
  /** Where the body names what is acted on, and the scopes of which the caller needs one for each name. */
  readonly names: readonly NamesInBody[];
  /** Whether its body contains lease tokens. */
  readonly takesLeaseTokens: boolean;
  /** False if the contract rules out repeating it (`x-retryable`), whatever the problem's code. */
  readonly retryable: boolean;
  /** Whether it counts against the requests per second of its principal. */
  readonly rateLimited: boolean;
  /** Whether it may be refused under overload. */
  readonly sheddable: boolean;
  readonly parameters: readonly Parameter[];
  /** How to read its body: as JSON that the contract describes, as bytes of any type, or not at all. */
  readonly body: 'json' | 'raw' | undefined;
  /** Larger bodies are refused unread, whatever the operator allows; Infinity: only the operator's limit counts. */
  readonly maxBodyBytes: number;
  /** The media types of its successful answers, the preferred one first; empty if they have no body. */
  readonly types: readonly string[];
  readonly source: OperationObject;
  readonly responses: Readonly<Record<string, Response>>;
}

export interface NamesInBody {
  /** From the body down: member names, and `*` for every item of a list. */
  readonly steps: readonly string[];
  readonly scopes: readonly Scope[];
}

export interface OpenApi {
  /** The file, byte for byte. */
  readonly text: string;
  readonly document: Document;
  readonly operations: readonly Operation[];
}

let loaded: OpenApi | undefined;

export function openApi(): OpenApi {
  return (loaded ??= load());
}

function load(): OpenApi {
  const text = readFileSync(FILE, 'utf8');
  const document = documentOf(text) as Document;
  const operations = Object.entries(document.paths).flatMap(([template, item]) =>
    METHODS.flatMap((method) =>
      item[method] === undefined ? [] : [operationOf(document, template, method, item[method])],
    ),
  );
  return { text, document, operations };
}

function operationOf(document: Document, template: string, method: string, source: OperationObject): Operation {
  const parameters = [...(document.paths[template]?.parameters ?? []), ...(source.parameters ?? [])];
  const responses = Object.fromEntries(
    Object.entries(source.responses).map(([status, one]) => [status, resolve<Response>(document, one)]),
  );
  const isPublic = source.security?.length === 0;
  const { 'x-kind': kind, 'x-scope': scope, 'x-names': names = {} } = source;
  if (!isPublic && (kind === undefined || scope === undefined))
    throw new Error(`openapi.yaml: ${source.operationId} needs a credential but has no x-kind and x-scope`);
  const bodySchema = source.requestBody?.content['application/json']?.schema;
  return {
    operationId: source.operationId,
    method: method.toUpperCase(),
    template,
    pointer: pointer('paths', template, method),
    isPublic,
    kind: kind ?? '',
    scopes: [scope ?? []].flat(),
    names: Object.entries(names).map(([place, scopes]) => ({ steps: place.split('/'), scopes: [scopes].flat() })),
    takesLeaseTokens:
      bodySchema !== undefined && resolve<Schema>(document, bodySchema).properties?.['leaseTokens'] !== undefined,
    rateLimited: !isPublic && (source['x-rate-limited'] ?? true),
    sheddable: source['x-rate-limited'] ?? true,
    retryable: source['x-retryable'] ?? true,
    parameters: parameters.map((one) => resolve<Parameter>(document, one)),
    body: source.requestBody === undefined ? undefined : ANY_TYPE in source.requestBody.content ? 'raw' : 'json',
    maxBodyBytes: source['x-max-body-bytes'] ?? Infinity,
    types: Object.keys(responses['200']?.content ?? responses['201']?.content ?? {}),
    source,
    responses,
  };
}

/** Follows a `$ref` inside the document; anything else is returned as it is. */
export function resolve<T>(document: Document, value: T | Reference): T {
  if (!isReference(value)) return value;
  const parts = value.$ref.replace(/^#\//, '').split('/');
  const target = parts.reduce<unknown>(
    (at, part) => (at as Record<string, unknown> | undefined)?.[unescape(part)],
    document,
  );
  if (target === undefined) throw new Error(`openapi.yaml has no ${value.$ref}`);
  return resolve(document, target as T | Reference);
}

function isReference<T>(value: T | Reference): value is Reference {
  return typeof value === 'object' && value !== null && '$ref' in value && value.$ref !== undefined;
}

/** A JSON pointer of these parts. */
export function pointer(...parts: string[]): string {
  return parts.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

function unescape(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~');
}
