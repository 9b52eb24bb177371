/**
 * Validates requests against the contract. Each operation has one validator per place of values, compiled when it is
 * first needed: to compile all of them would take most of the CPU that a replica needs to start.
 *
 * Validators stop at the first broken rule. Only a refused request is checked again for further errors, and only if it
 * is small: explaining must not cost more than serving.
 */
import type { ValidateFunction } from 'ajv/dist/2020.js';
import { BrokenRulesError, PosternError, type Place } from '../../errors.js';
import { invalidRequest } from './broken-rules.js';
import {
  openApi,
  pointer,
  resolve,
  type Document,
  type OpenApi,
  type Operation,
  type Parameter,
  type Schema,
} from './openapi.js';
import { createSchemaCompiler, referenceTo, type Limits, type SchemaCompiler } from './schemas.js';

type Values = Record<string, unknown>;
type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Larger bodies are not checked for further errors. */
const EXPLAINED_BYTES_MAX = 16 * 1024;
/** A value that breaks one of these is refused for its size: checking its content might cost too much. */
const RULES_OF_SIZE = new Set(['maxItems', 'maxLength', 'maxProperties', 'x-max-bytes']);

/**
 * Headers that make a request conditional or safe to repeat. An operation that does not support one must refuse it:
 * ignoring it would do unconditionally what the caller wanted only on a condition. All other headers may come from a
 * proxy and are ignored.
 */
const BINDING_HEADERS = ['If-Match', 'If-None-Match', 'Guard', 'Idempotency-Key'] as const;

export interface OperationValidator {
  /**
   * @returns the query in the types of the contract
   * @throws PosternError if a value breaks its rule
   */
  checkTarget(params: Readonly<Record<string, string>>, query: ReadonlyMap<string, string>, headers: Headers): Values;
  /**
   * Sets defaults in the body.
   * @throws PosternError
   */
  checkBody(body: unknown, bytes: number): void;
}

export type Validators = ReadonlyMap<string, OperationValidator>;

/** By `maxWaitMs`. */
const shared = new Map<number, Validators>();

/** Those of the contract. The gateways of a process share them: to compile them costs more than all the rest of one. */
export function validatorsFor({ maxWaitMs }: Limits): Validators {
  let validators = shared.get(maxWaitMs);
  if (validators === undefined) shared.set(maxWaitMs, (validators = createValidators(openApi(), { maxWaitMs })));
  return validators;
}

function createValidators({ document, operations }: OpenApi, limits: Limits): Validators {
  const quick = createSchemaCompiler(document, limits, { allErrors: false });
  const thorough = createSchemaCompiler(document, limits, { allErrors: true });
  return new Map(
    operations.map((operation) => [
      operation.operationId,
      operationValidator(document, operation, { quick, thorough, limits }),
    ]),
  );
}

interface Tools {
  quick: SchemaCompiler;
  thorough: SchemaCompiler;
  limits: Limits;
}

function operationValidator(document: Document, operation: Operation, tools: Tools): OperationValidator {
  const path = parametersValidator(operation, 'path', tools);
  const query = parametersValidator(operation, 'query', tools);
  const header = parametersValidator(operation, 'header', tools);
  const body = operation.body === 'json' ? bodyValidator(operation, tools) : undefined;
  const converters = convertersOf(document, operation);
  const headers = operation.parameters
    .filter((one) => one.in === 'header')
    .map(({ name, required }) => ({ name, lower: name.toLowerCase(), required: required === true }));
  const reads = operation.method === 'GET';
  const untaken = BINDING_HEADERS.filter((name) => !reads && !headers.some((one) => one.name === name)).map((name) => ({
    name,
    lower: name.toLowerCase(),
  }));
  const needsHeaders = headers.some(({ required }) => required);
  /** The values for a request without a query. */
  let unasked: Values | undefined;
  const checkQuery = (given: ReadonlyMap<string, string>): Values => {
    if (given.size === 0 && unasked !== undefined) return unasked;
    // Without a prototype: the caller chooses these names.
    const values = Object.create(null) as Values;
    for (const [name, text] of given) values[name] = converters.get(name)?.(text) ?? text;
    query(values);
    if (given.size === 0) unasked = Object.freeze(values);
    return values;
  };
  const hasPath = operation.parameters.some((one) => one.in === 'path');

  return {
    checkTarget(params, given, requestHeaders) {
      if (hasPath) path(params);
      const values = checkQuery(given);
      let present: Values | undefined;
      for (const { name, lower, required } of headers) {
        const value = requestHeaders[lower];
        // A shell sends an empty header for an empty variable. Only a required token counts as missing then, which
        // names the cause; any other header, if ignored, would have the request done in another namespace, or twice.
        const isMissing = value === undefined || (value === '' && name === 'Lease-Token');
        if (!isMissing) (present ??= {})[name] = value;
        else if (required && name === 'Lease-Token') throw leaseTokenRequired();
      }
      if (present !== undefined || needsHeaders) header(present ?? {});
      for (const { name, lower } of untaken) if (requestHeaders[lower] !== undefined) throw notTaken(operation, name);
      return values;
    },
    checkBody(value, bytes) {
      body?.(value, bytes);
    },
  };
}

type Check = (value: unknown, bytes?: number) => void;

function parametersValidator(operation: Operation, place: 'path' | 'query' | 'header', tools: Tools): Check {
  const own = operation.parameters.filter((parameter) => parameter.in === place);
  const schema: Schema = {
    type: 'object',
    additionalProperties: false,
    required: own.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(own.map(({ name, schema }) => [name, absolute(schema)])),
  };
  return check(place, (compiler) => compiler.compile(schema), tools);
}

function bodyValidator(operation: Operation, tools: Tools): Check {
  const at = operation.pointer + pointer('requestBody', 'content', 'application/json', 'schema');
  return check('body', (compiler) => compiler.at(at), tools);
}

function check(place: Place, compile: (compiler: SchemaCompiler) => ValidateFunction, tools: Tools): Check {
  let quick: ValidateFunction | undefined;
  let thorough: ValidateFunction | undefined;
  return (value, bytes = 0) => {
    quick ??= compile(tools.quick);
    if (quick(value)) return;
    const found = quick.errors ?? [];
    const isTooLarge = bytes > EXPLAINED_BYTES_MAX || found.some(({ keyword }) => RULES_OF_SIZE.has(keyword));
    if (isTooLarge) throw invalidRequest(place, found, tools.limits);
    thorough ??= compile(tools.thorough);
    throw invalidRequest(place, thorough(value) ? found : (thorough.errors ?? found), tools.limits);
  };
}

/** A parameter's schema, with its reference resolvable from outside the document. */
function absolute(schema: Schema): Schema {
  const { $ref, ...rest } = schema;
  return $ref !== undefined ? { ...referenceTo($ref.replace(/^#/, '')), ...rest } : rest;
}

/**
 * A query holds text; integers and booleans of the contract are converted, and text that is neither is left to be
 * refused.
 */
function convertersOf(document: Document, operation: Operation): Map<string, (text: string) => unknown> {
  return new Map(
    operation.parameters
      .filter((parameter) => parameter.in === 'query')
      .map((parameter) => [parameter.name, converterOf(document, parameter)]),
  );
}

function converterOf(document: Document, parameter: Parameter): (text: string) => unknown {
  switch (resolve<Schema>(document, parameter.schema).type) {
    case 'integer':
      return (text) => (/^-?\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text);
    case 'boolean':
      return (text) => (text === 'true' ? true : text === 'false' ? false : text);
    default:
      return (text) => text;
  }
}

function notTaken({ parameters, method, template }: Operation, name: string): BrokenRulesError {
  const taken = BINDING_HEADERS.filter((one) => parameters.some((parameter) => parameter.name === one));
  const instead = taken.length === 0 ? '' : ` (it takes ${taken.join(', ')})`;
  const detail = `${method} ${template} takes no header ${name}${instead}. Nothing was done, because it would have been done without regard to it; leave it out.`;
  return new BrokenRulesError('header', [{ field: name, detail }]);
}

function leaseTokenRequired(): PosternError {
  return new PosternError(
    'lease-token-required',
    'This request is made for a lease; send its token in the header Lease-Token.',
  );
}
