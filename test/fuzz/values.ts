/** Values as a schema of the contract describes them, drawn by chance; and values that no schema expects. */
import { openApi, resolve, type Schema } from '../../src/http/contract/openapi.js';
import type { Chance } from './chance.js';
import type { Memory } from './memory.js';

const { document } = openApi();

/** Few, so that requests meet. `acquire` and `self` are also fixed segments of the contract. */
export const NAMES = ['a', 'b', 'c', 'acquire', 'self', '...', '~_-.', 'x'.repeat(200)];
const STRINGS = [...NAMES, '', '"1-1"', '*', '1-1', 'a/b', 'lock=a;token=1', 'ü€𝄞', 'a b', 'application/json'];

/** Where any value of the contract would do, but only some lead on: short waits, TTLs that the ensemble allows. */
const USUAL: Record<string, [number, number]> = {
  claimMs: [100, 1_000],
  deadlineMs: [100, 1_000],
  delayMs: [0, 200],
  expiresInMs: [1, 2_000],
  dedupWindowMs: [0, 5_000],
  graceMs: [0, 200],
  limit: [1, 3],
  lockDelayMs: [0, 100],
  max: [1, 5],
  maxClaimMs: [100, 1_000],
  maxMs: [1, 100],
  messageTtlMs: [500, 5_000],
  of: [1, 20],
  size: [1, 3],
  ttlMs: [600, 4_000],
  waitMs: [0, 100],
};

/** So few that messages of one queue meet in a group. */
const GROUPS = ['a', 'b', 'c'];

/** A value that keeps the schema; `member` is the name it is sent under. */
export function keeping(schema: Schema, member: string, chance: Chance, memory: Memory): unknown {
  const known = chance.percent(60) ? memory.recall(member, chance) : undefined;
  const [only = schema] = schema.allOf ?? [];
  const resolved = resolve<Schema>(document, only);
  if (known !== undefined && fits(resolved, known)) return known;
  return drawn(resolved, member, chance, memory);
}

function drawn(schema: Schema & Bounds, member: string, chance: Chance, memory: Memory): unknown {
  if (schema.enum !== undefined) return chance.pick(schema.enum);
  if (schema.const !== undefined) return schema.const;
  switch (schema.type) {
    case 'object':
      return object(schema, chance, memory);
    case 'array':
      return array(schema, member, chance, memory);
    case 'string':
      return member === 'group' && chance.percent(80) ? chance.pick(GROUPS) : string(schema, chance);
    case 'integer':
      return integer(schema, member, chance);
    case 'boolean':
      return chance.percent(50);
    default:
      return anything(chance);
  }
}

/** Keywords that the gateway leaves to ajv. */
interface Bounds {
  pattern?: string;
  minLength?: number;
  minItems?: number;
  uniqueItems?: boolean;
}

function object(schema: Schema, chance: Chance, memory: Memory): Record<string, unknown> {
  const made: Record<string, unknown> = {};
  for (const [member, one] of Object.entries(schema.properties ?? {}))
    if (schema.required?.includes(member) === true || chance.percent(35))
      made[member] = keeping(one, member, chance, memory);
  const { additionalProperties: free } = schema;
  if (free === true || typeof free === 'object')
    for (let i = chance.integer(0, 3); i > 0; i -= 1)
      made[chance.pick(NAMES.slice(0, 6))] =
        free === true ? anything(chance) : keeping(free, 'anything', chance, memory);
  return made;
}

function array(schema: Schema & Bounds, member: string, chance: Chance, memory: Memory): unknown[] {
  const length = chance.integer(schema.minItems ?? 0, Math.min(schema.maxItems ?? 3, chance.percent(5) ? 100 : 3));
  const items = Array.from({ length }, () => keeping(schema.items ?? {}, member, chance, memory));
  return schema.uniqueItems === true ? [...new Set(items)] : items;
}

function string(schema: Schema & Bounds, chance: Chance): string {
  const fitting = STRINGS.filter((text) => fits(schema, text));
  if (fitting.length > 0 && chance.percent(80)) return chance.pick(fitting);
  const most = Math.min(schema.maxLength ?? 64, 2_048);
  const random = chance.text('abcXYZ019._~-', chance.integer(Math.max(1, schema.minLength ?? 0), most));
  return fits(schema, random) || fitting.length === 0 ? random : chance.pick(fitting);
}

function integer({ minimum = -1_000, maximum = 1_000_000 }: Schema, member: string, chance: Chance): number {
  const [from, to] = USUAL[member] ?? [Math.max(minimum, -5), Math.min(maximum, 5)];
  if (chance.percent(90)) return Math.min(maximum, Math.max(minimum, chance.integer(from, to)));
  return chance.pick(USUAL[member] === undefined ? [minimum, maximum] : [minimum]);
}

function fits(schema: Schema & Bounds, value: unknown): boolean {
  if (schema.enum !== undefined) return schema.enum.includes(value);
  if (schema.type === 'integer') return Number.isInteger(value);
  if (schema.type !== 'string') return false;
  if (typeof value !== 'string') return false;
  if (value.length < (schema.minLength ?? 0) || value.length > (schema.maxLength ?? Infinity)) return false;
  return schema.pattern === undefined || new RegExp(schema.pattern, 'u').test(value);
}

function anything(chance: Chance, depth = 0): unknown {
  if (depth < 3 && chance.percent(30))
    return chance.percent(50)
      ? Array.from({ length: chance.integer(0, 3) }, () => anything(chance, depth + 1))
      : Object.fromEntries(
          Array.from({ length: chance.integer(0, 3) }, () => [chance.pick(STRINGS), anything(chance, depth + 1)]),
        );
  const numbers = [0, -1, 1.5, Number.MAX_SAFE_INTEGER, 1e300];
  return chance.pick<unknown>([null, true, false, ...numbers, '', 'text', 'ü€𝄞', '\u0000', '\u2028']);
}

/** Of every type, at the edges and beyond them. */
export function unexpected(chance: Chance): unknown {
  return chance.pick<unknown>([
    null,
    true,
    -1,
    0,
    1.5,
    2 ** 31,
    2 ** 53,
    -(2 ** 63),
    1e308,
    '',
    ' ',
    '0',
    'x'.repeat(3_000),
    '\u0000',
    '\ud800',
    '../..',
    '%2F',
    '__proto__',
    'constructor',
    [],
    [[]],
    {},
    { a: { b: { c: [] } } },
    anything(chance),
    nested(chance.pick([10, 100, 600])),
  ]);
}

function nested(levels: number): unknown {
  let value: unknown = 0;
  for (let i = 0; i < levels; i += 1) value = i % 2 === 0 ? [value] : { a: value };
  return value;
}
