/**
 * The schemas of the contract, compiled by ajv in place, so that their `$ref`s resolve.
 *
 * Two extensions are rules: `x-max-bytes` bounds a free value by its size as JSON, and `x-limit` names a bound that the
 * operator sets. `x-rule` puts a pattern in words; `x-secret` keeps a value out of messages. `x-default` is the default
 * of an absent member of a body: with `default`, client generators would take the member for a required one.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Document, Schema } from './openapi.js';

const DOCUMENT_ID = 'openapi.yaml';

/** The values that `x-limit` refers to. */
export type Limits = Readonly<Record<'maxWaitMs', number>>;

export interface SchemaCompiler {
  /** The validator for the schema at this JSON pointer of the document. */
  at(pointer: string): ValidateFunction;
  /** The validator for a schema that may refer into the document by {@link referenceTo}. */
  compile(schema: Schema): ValidateFunction;
}

/** A `$ref` to this JSON pointer of the document. */
export function referenceTo(pointer: string): Schema {
  return { $ref: `${DOCUMENT_ID}#${encodeURI(pointer)}` };
}

/**
 * Nothing is parsed or compiled before the first schema is asked for.
 *
 * @param options `allErrors` costs time with the size of the input; only for explaining a refusal
 */
export function createSchemaCompiler(
  document: Document,
  limits: Limits,
  options: { allErrors: boolean },
): SchemaCompiler {
  let ajv: Ajv2020 | undefined;
  const compile = (schema: Schema): ValidateFunction => (ajv ??= ajvFor(document, limits, options)).compile(schema);
  return { at: (pointer) => compile(referenceTo(pointer)), compile };
}

function ajvFor(document: Document, limits: Limits, options: { allErrors: boolean }): Ajv2020 {
  const ajv = new Ajv2020({
    allErrors: options.allErrors,
    verbose: true,
    strict: true,
    strictTypes: false,
    useDefaults: true,
    // `npm run check` has done that; here it would take longer than all the rest.
    validateSchema: false,
  });
  addFormats.default(ajv);
  // ajv treats the whole document as a schema when it resolves definitions; the document's own members are no keywords.
  ajv.addVocabulary([...Object.keys(document), 'example', 'x-rule', 'x-secret', 'x-go-name']);
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
  return ajv.addSchema(withDefaults(document), DOCUMENT_ID, undefined, false);
}

function withDefaults(document: Document): Document {
  return JSON.parse(JSON.stringify(document).replaceAll('"x-default":', '"default":')) as Document;
}
