/** What generators of clients need of the contract, and no test of an answer would notice. */
import { readFileSync } from 'node:fs';
import { serialize } from 'node:v8';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { openApi, resolve, type Schema } from '../../src/http/contract/openapi.js';

const { document, operations, text } = openApi();
const { schemas, parameters, responses } = document.components as Record<string, Record<string, Schema>>;

test('it is read as the file says, characters beyond Latin-1 among them', () => {
  expect(text).toMatch(/[^\u0000-\u00ff]/);
  expect(text).toBe(readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8'));
  expect(document).toEqual(parse(text));
});

test('what becomes part of each log line, metric and answer has one byte per character', () => {
  const words = operations.flatMap(({ operationId, template, kind }) => [operationId, template, kind]);
  const members = Object.values(schemas ?? {}).flatMap(({ properties = {} }) => Object.keys(properties));
  expect(members.length).toBeGreaterThan(100);
  expect([...words, ...members].filter((word) => !isOfBytes(word))).toEqual([]);
});

/** How V8 keeps a text shows in the tag of its serialised form, behind the version: `"` for Latin-1. */
function isOfBytes(text: string): boolean {
  return serialize(text).at(2) === '"'.charCodeAt(0);
}

test('no two components have one name: generators put all of them into one namespace', () => {
  const names = [schemas, parameters, responses].flatMap((components = {}) => Object.keys(components));
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

test('no member of a schema has a `default`, which would make it required, and each `x-default` is said in words', () => {
  const found = Object.entries(schemas ?? {}).flatMap(([name, schema]) => [...defaults(name, schema)]);
  expect(found.length).toBeGreaterThan(10);
  expect(found.filter(({ wrong }) => wrong)).toEqual([]);
});

test('what needs a lease token may find that its lease has ended, and nothing else does; nor is a body refused where none is read', () => {
  const ids = (picked: typeof operations): string[] => picked.map(({ operationId }) => operationId);
  const answering = (status: number): string[] => ids(operations.filter(({ responses }) => `${status}` in responses));
  const withToken = operations.filter(({ parameters }) => parameters.some(({ name }) => name === 'Lease-Token'));
  expect([...answering(410), 'endLease'].sort()).toEqual(ids(withToken).sort());
  const withBody = ids(operations.filter(({ body }) => body !== undefined));
  expect(answering(413)).toEqual(withBody);
  expect(answering(415)).toEqual(withBody);
});

test('what answers 304 says which header asks for that, and which header names the state', () => {
  const conditional = operations.filter(({ responses }) => '304' in responses);
  expect(conditional.length).toBeGreaterThan(10);
  for (const { operationId, parameters, responses } of conditional) {
    expect(
      parameters.map(({ name }) => name),
      operationId,
    ).toContain('If-None-Match');
    expect(Object.keys(responses['200']?.headers ?? {}), operationId).toContain('ETag');
  }
});

test('every operation may meet a fault of the gateway', () => {
  expect(operations.filter(({ responses }) => !('500' in responses))).toEqual([]);
});

function* defaults(at: string, schema: Schema): Generator<{ at: string; value: unknown; wrong: boolean }> {
  const { description = '' } = { ...resolve<Schema>(document, schema), ...schema };
  if ('default' in schema) yield { at, value: schema.default, wrong: true };
  if ('x-default' in schema) yield { at, value: schema['x-default'], wrong: !/default/.test(description) };
  const parts = [
    ...(schema.allOf ?? []),
    ...(schema.anyOf ?? []),
    ...(schema.items === undefined ? [] : [schema.items]),
  ];
  for (const part of parts) yield* defaults(at, part);
  for (const [name, member] of Object.entries(schema.properties ?? {})) yield* defaults(`${at}.${name}`, member);
}
