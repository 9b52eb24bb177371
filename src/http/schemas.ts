/**
 * The schemas of the contract, compiled by ajv where they stand, so that `$ref`s in them mean what they say.
 *
 * Two extensions are rules: `x-max-bytes` bounds a free value by its size as JSON, and `x-limit` names a bound that the operator
 * sets. `x-rule` says a pattern in words, `x-secret` keeps a value out of messages.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Document, Schema } from './openapi.js';

const DOCUMENT_ID = 'openapi.yaml';

/** The values behind `x-limit`. */
export type Limits = Readonly<Record<'maxWaitMs', number>>;

export interface SchemaCompiler {
  /** The validator of a schema of the document, by its JSON pointer. */
  at(pointer: string): ValidateFunction;
  /** The validator of a schema that may refer into the document by {@link referenceTo}. */
  compile(schema: Schema): ValidateFunction;
}

/** A `$ref` to what stands at this JSON pointer of the document. */
export function referenceTo(pointer: string): Schema {
  return { $ref: `${DOCUMENT_ID}#${encodeURI(pointer)}` };
}

/**
 * `allErrors` costs time with the size of the input and is for explaining a refusal only. Absent members get their `default`.
 */
export function createSchemaCompiler(
  document: Document,
  limits: Limits,
  options: { allErrors: boolean },
): SchemaCompiler {
  const ajv = new Ajv2020({
    allErrors: options.allErrors,
    verbose: true,
    strict: true,
    strictTypes: false,
    useDefaults: true,
  });
  addFormats.default(ajv);
  // ajv takes the whole document for a schema whose definitions it looks up; its own members are no keywords to it.
  ajv.addVocabulary([...Object.keys(document), 'example', 'x-rule', 'x-secret']);
  ajv.addKeyword({
    keyword: 'x-max-bytes',
    schemaType: 'number',
    validate: (max: number, value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '') <= max,
  });
  ajv.addKeyword({
    keyword: 'x-limit',
    schemaType: 'string',
    type: 'number',
    validate: (name: keyof Limits, value: number) => value <= limits[name],
  });
  ajv.addSchema(document, DOCUMENT_ID, undefined, false);
  return {
    at: (pointer) => ajv.compile(referenceTo(pointer)),
    compile: (schema) => ajv.compile(schema),
  };
}
