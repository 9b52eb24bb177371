/**
 * The contract as data: `openapi.yaml`, read once, and the few things of it that serving a request needs.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

/** Beside `src` in a checkout and beside `dist` in the package. */
const FILE = fileURLToPath(new URL('../../openapi.yaml', import.meta.url));

/** In the contract: bytes of whatever type. */
export const ANY_TYPE = '*/*';

export const METHODS = ['get', 'post', 'put', 'delete'] as const;

/** The keywords of JSON Schema that somebody here looks at; ajv sees to all of them. */
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
  /** Of a path's last parameter: it takes all the segments that are left, joined by `/`. */
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
  'x-retryable'?: boolean;
  'x-rate-limited'?: boolean;
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
  /** The path as the contract writes it: `/v1/locks/{name}`. Bounded, so it may be a metric label. */
  readonly template: string;
  /** The JSON pointer of this operation in the document. */
  readonly pointer: string;
  /** Served without a credential. */
  readonly isPublic: boolean;
  /** What credentials name in their scopes; empty for public operations. */
  readonly kind: string;
  /** False: no problem of it says that it may be repeated (`x-retryable`), whatever its code. */
  readonly retryable: boolean;
  /** Whether it counts against the requests per second of its principal. */
  readonly rateLimited: boolean;
  readonly parameters: readonly Parameter[];
  /** How its body is read: as JSON that the contract describes, as whatever bytes it is (any type), or not at all. */
  readonly body: 'json' | 'raw' | undefined;
  /** The types its successful answers come in, the preferred one first; empty when they have no body. */
  readonly types: readonly string[];
  readonly source: OperationObject;
  readonly responses: Readonly<Record<string, Response>>;
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
  const document = parse(text) as Document;
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
  const kind = source['x-kind'];
  if (!isPublic && kind === undefined)
    throw new Error(`openapi.yaml: ${source.operationId} needs a credential but has no x-kind`);
  return {
    operationId: source.operationId,
    method: method.toUpperCase(),
    template,
    pointer: pointer('paths', template, method),
    isPublic,
    kind: kind ?? '',
    rateLimited: !isPublic && (source['x-rate-limited'] ?? true),
    retryable: source['x-retryable'] ?? true,
    parameters: parameters.map((one) => resolve<Parameter>(document, one)),
    body: source.requestBody === undefined ? undefined : ANY_TYPE in source.requestBody.content ? 'raw' : 'json',
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
