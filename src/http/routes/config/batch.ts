/** `POST /v1/config`: translates several writes in one request from the contract to the recipe. */
import { InvalidError } from '../../../errors.js';
import type { ConfigOperation } from '../../../recipes/config/plan.js';
import { isMediaType } from '../../frame/body.js';
import type { components } from '../../contract/contract.js';
import { etagsOf } from '../shared/etag.js';

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
  // The contract has checked the characters. Decoding drops surplus bits, so the value must encode back to what was
  // sent.
  if (unpadded(bytes.toString('base64')) !== unpadded(valueBase64))
    throw new InvalidError(`${field}.valueBase64`, valueBase64, 'base64');
  return { contentType: contentType ?? BYTES_TYPE, bytes };
}

/** At most two characters, so that a body full of them is scanned once. */
function unpadded(base64: string): string {
  return base64.replace(/={1,2}$/, '');
}
