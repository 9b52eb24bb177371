/** The bundle of the contract, made of the parts and of one more recipe. */
import { appendFile, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Document, OperationObject } from '../../src/http/contract/openapi.js';

const BUNDLER = new URL('../../scripts/lib/contract-bundle.mjs', import.meta.url).href;
const PARTS = fileURLToPath(new URL('../../openapi', import.meta.url));
const PATHS = `
/v1/rate-limiters/{name}/take:
  parameters:
    - $ref: '#/components/parameters/RateLimiterName'
  post:
    operationId: takeFromRateLimiter
    summary: Take from a rate limiter
    tags: [Rate limiters]
    x-kind: rate-limiter
    x-scope: use
    parameters:
      - $ref: '#/components/parameters/LeaseTokenHeader'
      - $ref: '#/components/parameters/Limit'
    requestBody:
      content:
        application/json:
          schema: { $ref: '#/components/schemas/TakeRequest' }
    responses:
      '200':
        description: Taken.
        content:
          application/json:
            schema: { $ref: '#/components/schemas/TakeRequest' }
      '403': null # not so for this one
      '409': { $ref: '#/components/responses/Exhausted' }
      '429': { $ref: '#/components/responses/Exhausted' }

parameters:
  RateLimiterName:
    name: name
    in: path
    required: true
    schema: { $ref: '#/components/schemas/Name' }

problems:
  Exhausted:
    description: Nothing is left.
    example: { code: conflict }
`;
const SCHEMAS = `
TakeRequest:
  type: object
  properties:
    requestId: { $ref: '#/components/schemas/RequestId' }
`;

let parts: string;
beforeEach(async () => {
  parts = await mkdtemp(join(tmpdir(), 'postern-parts-'));
  await cp(PARTS, parts, { recursive: true });
  await addToList('rate-limiters');
  await writeFile(join(parts, 'paths', 'rate-limiters.yaml'), PATHS);
  await writeFile(join(parts, 'schemas', 'rate-limiters.yaml'), SCHEMAS);
});
afterEach(() => rm(parts, { recursive: true }));

it('adds to the operations of a recipe what follows from them, and nothing that they say themselves', async () => {
  const { paths, components } = await bundle();
  const item = paths['/v1/rate-limiters/{name}/take'];
  const { parameters, responses, ...rest } = item?.post as OperationObject;
  const named = (name: string): object => ({ $ref: `#/components/parameters/${name}` });
  expect(parameters).toEqual(['LeaseTokenHeader', 'Namespace', 'IdempotencyKey', 'Limit'].map(named));
  expect(rest).toMatchObject({ 'x-kind': 'rate-limiter', 'x-max-body-bytes': 32_768 });
  const statuses = '200 400 401 405 406 409 410 413 414 415 422 429 431 500 503';
  expect(Object.keys(responses).join(' ')).toBe(statuses);
  expect(responses['200']).toHaveProperty(['headers', 'Trace-Id']);
  expect(responses['429']).toEqual({ $ref: '#/components/responses/Exhausted' });
  expect((components as unknown as { responses: Record<string, unknown> }).responses['Exhausted']).toEqual({
    description: 'Nothing is left.',
    headers: { 'Trace-Id': { $ref: '#/components/headers/TraceId' } },
    content: {
      'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' }, example: { code: 'conflict' } },
    },
  });
});

it('leaves everything else as it was', async () => {
  const { paths, components, ...whole } = await bundle();
  delete paths['/v1/rate-limiters/{name}/take'];
  delete components.schemas['TakeRequest'];
  const { parameters, responses } = components as unknown as Record<string, Record<string, unknown>>;
  delete parameters?.['RateLimiterName'];
  delete responses?.['Exhausted'];
  const before = parse(await readFile(join(PARTS, '..', 'openapi.yaml'), 'utf8'));
  expect({ ...whole, paths, components }).toEqual(before);
});

it('names the part that says what another one says already', async () => {
  await appendFile(join(parts, 'schemas', 'locks.yaml'), 'TakeRequest: { type: object }\n');
  await expect(bundle()).rejects.toThrow(
    'openapi/schemas/rate-limiters.yaml, TakeRequest: Key TakeRequest already set',
  );
});

it('refuses a file of paths that nobody lists', async () => {
  await writeFile(join(parts, 'paths', 'forgotten.yaml'), '/v1/forgotten: {}\n');
  await expect(bundle()).rejects.toThrow('does not list forgotten.yaml');
});

it('refuses a section that the contract does not have', async () => {
  await appendFile(join(parts, 'paths', 'rate-limiters.yaml'), 'problem: {}\n');
  await expect(bundle()).rejects.toThrow('openapi/paths/rate-limiters.yaml, problem: no such section');
});

async function bundle(): Promise<Document> {
  const { bundleContract } = (await import(BUNDLER)) as { bundleContract: (parts: string) => Promise<string> };
  return parse(await bundleContract(parts)) as Document;
}

async function addToList(recipe: string): Promise<void> {
  const path = join(parts, 'openapi.yaml');
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.replace('  - operations\n', `  - operations\n  - ${recipe}\n`));
}
