/** `POST /v1/config`: several writes in one request, from the words of the contract into those of the recipe. */
import { InvalidError } from '../../errors.js';
import type { ConfigOperation, ETags } from '../../recipes/config/plan.js';
import { isMediaType } from '../body.js';
import type { components } from '../contract.js';

type Schemas = components['schemas'];

const JSON_TYPE = 'application/json';
const BYTES_TYPE = 'application/octet-stream';

/** @throws InvalidError that names the operation */
export function batchOf({ operations }: Schemas['WriteConfigRequest']): ConfigOperation[] {
  const keys = new Set<string>();
  return operations.map((operation, index) => {
    const field = `operations[${index}]`;
    const read = operationOf(operation, field);
    if (keys.has(read.key))
      throw new InvalidError(field, read.key, 'of another key than all before it: each key stands in one operation');
    keys.add(read.key);
    return read;
  });
}

/** The condition of an `If-Match`, its ETags without quotes: also those that a proxy has marked as weak, since versions are compared. */
export function etagsOf(text: string | undefined): ETags | undefined {
  if (text === undefined) return undefined;
  if (text.trim() === '*') return '*';
  return (text.match(/"[^"]*"/g) ?? [text]).map((tag) => tag.replaceAll('"', ''));
}

function operationOf(operation: Schemas['ConfigOperation'], field: string): ConfigOperation {
  const { put, delete: deleted, check, ifMatch, ifAbsent } = operation;
  const named = [put, deleted, check].filter((key) => key !== undefined);
  const [key] = named;
  if (key === undefined || named.length > 1)
    throw new InvalidError(field, operation, 'an object with exactly one of put, delete and check');
  if (ifMatch !== undefined && ifAbsent === true)
    throw new InvalidError(`${field}.ifAbsent`, ifAbsent, 'absent when ifMatch is given: no value meets both');
  const condition = { key, ifMatch: etagsOf(ifMatch) };
  if (put !== undefined) return { type: 'put', ...condition, ifAbsent, ...contentOf(operation, field) };
  for (const member of ['value', 'valueBase64', 'contentType'] as const) {
    if (operation[member] !== undefined)
      throw new InvalidError(`${field}.${member}`, operation[member], 'given with put only');
  }
  if (check !== undefined) return { type: 'check', ...condition, ifAbsent };
  if (ifAbsent !== undefined) throw new InvalidError(`${field}.ifAbsent`, ifAbsent, 'given with put and check only');
  return { type: 'delete', ...condition };
}

function contentOf(operation: Schemas['ConfigOperation'], field: string): { contentType: string; bytes: Buffer } {
  const { valueBase64, contentType } = operation;
  const isJson = 'value' in operation;
  if (isJson === (valueBase64 !== undefined))
    throw new InvalidError(field, operation, 'an object with exactly one of value and valueBase64, since it has put');
  if (contentType !== undefined && !isMediaType(contentType))
    throw new InvalidError(`${field}.contentType`, contentType, 'a media type such as text/plain; charset=utf-8');
  if (valueBase64 === undefined)
    return { contentType: contentType ?? JSON_TYPE, bytes: Buffer.from(JSON.stringify(operation.value)) };
  const bytes = Buffer.from(valueBase64, 'base64');
  // Decoding skips what it cannot read; what was sent must come out again.
  if (bytes.toString('base64').replace(/=+$/, '') !== valueBase64.replace(/=+$/, ''))
    throw new InvalidError(`${field}.valueBase64`, valueBase64, 'base64');
  return { contentType: contentType ?? BYTES_TYPE, bytes };
}
