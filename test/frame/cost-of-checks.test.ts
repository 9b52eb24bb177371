/**
 * What a request may cost before anything is done for it: every body of the contract is made as large as it may be,
 * with what is dear to scanners, patterns and comparisons at each of its places, right and wrong; and every parameter
 * as long as it may be. Processor time, since the machine may be busy.
 */
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/http/frame/json.js';
import { openApi, resolve, type Operation, type Schema } from '../../src/http/contract/openapi.js';
import { batchOf } from '../../src/http/routes/config/batch.js';
import { validatorsFor, type OperationValidator } from '../../src/http/contract/validation.js';
import { cpuMsOf } from '../support/usage.js';
import { scaled } from '../support/timing.js';

/** To read a text and to check what was read, together. */
const COSTS_AT_MOST_MS = 100;
/** As much as a replica reads unless it is told otherwise. */
const MAX_BODY_BYTES = 1024 * 1024;
const MAX_JSON_VALUES = 100_000;
/** As long as a path and a query, or all headers, may be. */
const MAX_PARAMETER = { path: 8_000, query: 8_000, header: 16_000 };
/** Refusals of small bodies are explained, which costs more for each byte. */
const SMALL_BYTES = 15_000;

const { document, operations } = openApi();
const validators = validatorsFor({ maxWaitMs: 55_000 });
const validatorOf = (operation: Operation): OperationValidator =>
  validators.get(operation.operationId) as OperationValidator;

/** What is tried of the largest bodies too. */
const DEAREST = [' ', '=', 'a/'];

/**
 * Texts of about this length: one character often, what the patterns of the contract begin with, and an end that fits
 * none.
 */
function texts(length: number): string[] {
  const parts = [
    'a',
    '0',
    '.',
    '/',
    '-',
    ' ',
    '=',
    '"',
    '\\',
    ',',
    'é',
    '😀',
    'a/',
    './',
    '""',
    '"a",',
    '0-0 ',
    'lock=a;',
    'W/"a" , ',
    '1-1"',
  ];
  return (length > SMALL_BYTES ? DEAREST : parts).flatMap((part) => {
    const many = part.repeat(Math.ceil(length / Buffer.byteLength(JSON.stringify(part)))).slice(0, length);
    return length > SMALL_BYTES ? [`${many}!`] : [many, `${many}!`, `lock=${many}`, `"${many}`];
  });
}

interface Text {
  text: string;
  /** What reading it costs, whose body it may be. */
  readingMs: number;
}

const textsBySize = new Map<number, readonly Text[]>();

async function textsOf(bytes: number): Promise<readonly Text[]> {
  const known = textsBySize.get(bytes);
  if (known !== undefined) return known;
  const texts: Text[] = [];
  for (const text of largeValues(bytes).map((value) => JSON.stringify(value)))
    texts.push({ text, readingMs: await cpuMsOf(() => readOrRefused(text)) });
  textsBySize.set(bytes, texts);
  return texts;
}

/** Values of about this many bytes. */
function largeValues(bytes: number): unknown[] {
  const list = (item: (index: number) => unknown, each: number): unknown[] =>
    Array.from({ length: Math.floor(bytes / each) }, (_, index) => item(index));
  const object = (value: unknown, each: number): unknown =>
    Object.fromEntries(list((index) => [`member${index}`, value], each) as [string, unknown][]);
  return [
    ...texts(bytes),
    list((index) => `n${index}`, 10),
    list(() => 'a', 4),
    list((index) => index, 8),
    list(() => ({}), 3),
    list((index) => ({ put: `k${index}` }), 18),
    list(() => [[]], 5),
    object(0, 16),
    object('a', 18),
    object({ a: [] }, 24),
  ];
}

/** Every place of a schema, from the outside in. */
function placesOf(schema: Schema, steps: readonly string[] = [], depth = 0): (readonly string[])[] {
  const { properties = {}, items } = resolve<Schema>(document, schema);
  if (depth > 4) return [steps];
  return [
    steps,
    ...Object.entries(properties).flatMap(([name, one]) => placesOf(one, [...steps, name], depth + 1)),
    ...(items === undefined ? [] : placesOf(items, [...steps, '0'], depth + 1)),
  ];
}

/** A body with this value at this place, and what it needs around it. */
function placed(steps: readonly string[], value: unknown, around: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return value;
  const whole = (around ?? {}) as Record<string, unknown>;
  const within = placed(rest, value, whole[step]);
  return step === '0' ? [within] : { ...whole, [step]: within };
}

/** Of the few members that need others. */
const AROUND: Record<string, unknown> = {
  writeConfig: { operations: [{ put: 'key' }] },
  createTransaction: { participants: ['a'], deadlineMs: 1_000 },
};

const withBody = operations.filter(({ body }) => body === 'json');
const sizesOf = ({ maxBodyBytes }: Operation): Set<number> =>
  new Set([SMALL_BYTES, Math.min(maxBodyBytes, MAX_BODY_BYTES) - 1_000]);
const SIZES = new Set(withBody.flatMap((operation) => [...sizesOf(operation)]));

/** Undefined for what is refused before it is parsed: that has too many values. */
function readOrRefused(text: string): unknown {
  try {
    return parseJson(text, MAX_JSON_VALUES);
  } catch {
    return undefined;
  }
}

/** As the frame does it, up to the handler. */
function check(operation: Operation, body: unknown, bytes: number): void {
  try {
    validatorOf(operation).checkBody(body, bytes);
    if (operation.operationId === 'writeConfig') batchOf(body as Parameters<typeof batchOf>[0]);
  } catch {
    // Refused, as most of them.
  }
}

/** What a body's text costs does not depend on whose body it is: a value of each size is read once. */
describe('the text of a body', () => {
  it.each([...SIZES])('of %i bytes is read at little cost, whatever is in it', async (bytes) => {
    for (const { text, readingMs } of await textsOf(bytes))
      expect(readingMs, text.slice(0, 100)).toBeLessThan(COSTS_AT_MOST_MS);
  });
});

describe('a body', () => {
  it.each(withBody.map((operation) => [operation.operationId, operation] as const))(
    'of %s is read and checked at little cost, whatever is in it',
    async (_, operation) => {
      const schema = operation.source.requestBody?.content['application/json']?.schema ?? {};
      for (const bytes of sizesOf(operation)) {
        // Of its own, since checks put defaults in.
        const values = (await textsOf(bytes))
          .map(({ text, readingMs }) => ({ value: readOrRefused(text), mostMs: COSTS_AT_MOST_MS - readingMs }))
          .filter(({ value }) => value !== undefined);
        for (const place of placesOf(schema)) {
          for (const { value, mostMs } of values) {
            const body = placed(place, value, AROUND[operation.operationId]);
            const isWhole = place.length === 0 || bytes > SMALL_BYTES;
            for (const one of isWhole ? [body] : [body, { nonsense: 1, ...(body as object) }]) {
              const ms = await cpuMsOf(() => check(operation, one, bytes), mostMs);
              if (ms < mostMs) continue;
              expect.fail(`${place.join('/')} ${JSON.stringify(one).slice(0, 100)} costs ${ms} of ${mostMs} ms`);
            }
          }
        }
      }
    },
    scaled(120_000),
  );
});

describe('a parameter', () => {
  it.each(operations.map((operation) => [operation.operationId, operation] as const))(
    'of %s costs little',
    async (_, operation) => {
      for (const { in: place, name } of operation.parameters) {
        for (const text of texts(MAX_PARAMETER[place])) {
          const take = (): void => {
            const [params, query, headers] = [{}, new Map<string, string>(), {}];
            if (place === 'query') query.set(name, text);
            else
              Object.assign(place === 'path' ? params : headers, {
                [place === 'header' ? name.toLowerCase() : name]: text,
              });
            try {
              validatorOf(operation).checkTarget(params, query, headers);
            } catch {
              // Refused, as most of them.
            }
          };
          const ms = await cpuMsOf(take, COSTS_AT_MOST_MS);
          expect(ms, `${name} ${text.slice(0, 100)}`).toBeLessThan(COSTS_AT_MOST_MS);
        }
      }
    },
  );
});
