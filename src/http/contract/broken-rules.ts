/** Errors of ajv in the words of the contract's 422: the field, its value and its rule. */
import type { ErrorObject } from 'ajv/dist/2020.js';
import { brokenRule as sentence, BrokenRulesError, type BrokenRule, type Place } from '../../errors.js';
import { openApi, resolve, type Schema } from './openapi.js';
import type { Limits } from './schemas.js';

/** More would help nobody, and would let an answer grow with its request. */
const ERRORS_SHOWN_MAX = 10;
const NAMES_SHOWN_MAX = 10;
const NAME_SHOWN_MAX = 60;

/** An error about the first broken rule, with the first few in its `errors`. */
export function invalidRequest(place: Place, errors: readonly ErrorObject[], limits: Limits): BrokenRulesError {
  const [first = { field: place, detail: `The ${place} is not valid.` }, ...others] = brokenRules(
    place,
    errors,
    limits,
  );
  return new BrokenRulesError(place, [first, ...others]);
}

function brokenRules(place: Place, errors: readonly ErrorObject[], limits: Limits): BrokenRule[] {
  const unknown = new Map<string, ErrorObject[]>();
  const others: BrokenRule[] = [];
  for (const error of errors) {
    if (error.keyword === 'additionalProperties') {
      unknown.set(error.instancePath, [...(unknown.get(error.instancePath) ?? []), error]);
    } else if (error.keyword === 'format' && saysMore(errors, error)) {
      continue;
    } else if (others.length < ERRORS_SHOWN_MAX) {
      others.push(brokenRule(place, error, limits));
    }
    if (unknown.size + others.length >= ERRORS_SHOWN_MAX) break;
  }
  return [...[...unknown.values()].map((same) => unknownMembers(place, same)), ...others];
}

/**
 * Whether another broken rule about the same value says more: "not an integer" says more than "not in an integer's
 * format".
 */
function saysMore(errors: readonly ErrorObject[], { instancePath }: ErrorObject): boolean {
  return errors.some((other) => other.keyword !== 'format' && other.instancePath === instancePath);
}

function brokenRule(place: Place, error: ErrorObject, limits: Limits): BrokenRule {
  if (error.keyword === 'required') {
    const member = String(error.params['missingProperty']);
    const field = fieldName(place, error.instancePath, member);
    const { properties } = (error.parentSchema ?? {}) as Schema;
    const kind = kindOf(properties?.[member]);
    return { field, detail: kind === undefined ? `${field} is missing.` : `${field} is missing; it must be ${kind}.` };
  }
  const field = fieldName(place, error.instancePath);
  const rule = ruleOf(error, limits);
  // A whole body, or anything under a secret member, may be a misplaced token.
  const hidden = error.parentSchema?.['x-secret'] === true || error.instancePath === '';
  return { field, detail: hidden ? `${field} must be ${rule}.` : sentence(field, error.data, rule) };
}

function unknownMembers(place: Place, errors: readonly ErrorObject[]): BrokenRule {
  const names = errors.map((error) => String(error.params['additionalProperty']));
  const known = Object.keys((errors[0]?.parentSchema?.['properties'] ?? {}) as object);
  const path = errors[0]?.instancePath ?? '';
  const noun = place === 'query' ? 'query parameter' : 'member';
  const within = path === '' ? '' : ` in ${fieldName(place, path)}`;
  const shown = names.slice(0, NAMES_SHOWN_MAX).map((name) => JSON.stringify(name.slice(0, NAME_SHOWN_MAX)));
  const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : '';
  return {
    field: fieldName(place, path, names[0]?.slice(0, NAME_SHOWN_MAX)),
    detail:
      `Unknown ${noun}${names.length === 1 ? '' : 's'}${within}: ${shown.join(', ')}${more}; ` +
      (known.length === 0 ? 'there are none here.' : `known: ${known.join(', ')}.`) +
      (names.includes('leaseToken') ? ' A lease token is sent as the header Lease-Token.' : ''),
  };
}

/** `/lease/ttlMs` as `lease.ttlMs`, `/items/3` as `items[3]`, the body itself as `body`. */
function fieldName(place: Place, instancePath: string, member?: string): string {
  const parts = instancePath.split('/').slice(1);
  if (member !== undefined) parts.push(member);
  if (parts.length === 0) return place;
  return parts
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part, index) => (index === 0 ? part : /^\d+$/.test(part) ? `[${part}]` : `.${part}`))
    .join('');
}

function ruleOf(error: ErrorObject, limits: Limits): string {
  const { keyword, params, parentSchema } = error;
  const limit = String(params['limit']);
  switch (keyword) {
    case 'type':
      return [params['type']].flat().map(withArticle).join(' or ');
    case 'minimum':
    case 'maximum':
      return rangeOf(parentSchema as Schema, keyword, limit);
    case 'minLength':
      return `at least ${limit} characters long`;
    case 'maxLength':
      return `at most ${limit} characters long`;
    case 'minItems':
      return `a list of at least ${limit}`;
    case 'maxItems':
      return `a list of at most ${limit}`;
    case 'uniqueItems':
      return 'a list without repetitions';
    case 'enum':
      return `one of ${(params['allowedValues'] as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`;
    case 'format':
      return `in the format ${String(params['format'])}`;
    case 'pattern':
      return String(parentSchema?.['x-rule'] ?? `a match of ${String(params['pattern'])}`);
    case 'x-max-bytes':
      return `at most ${String(error.schema)} bytes as JSON`;
    case 'x-limit':
      return `at most ${limits[error.schema as keyof Limits]}`;
    default:
      return error.message?.replace(/^must be /, '') ?? `as ${keyword} says`;
  }
}

/** What a member must be, in a few words; undefined if anything is allowed. */
function kindOf(schema: Schema | undefined): string | undefined {
  if (schema === undefined) return undefined;
  const { document } = openApi();
  const target = { ...resolve<Schema>(document, schema), ...schema };
  if (target.enum !== undefined) return `one of ${target.enum.map((value) => JSON.stringify(value)).join(', ')}`;
  if (target['x-rule'] !== undefined) return target['x-rule'];
  if (target.type === undefined) return undefined;
  const { minimum, maximum } = target;
  const range =
    minimum === undefined ? '' : maximum === undefined ? ` of at least ${minimum}` : ` from ${minimum} to ${maximum}`;
  return [target.type].flat().map(withArticle).join(' or ') + range;
}

/** Both bounds in one sentence, if there are two. */
function rangeOf({ minimum, maximum }: Schema, keyword: string, limit: string): string {
  if (minimum !== undefined && maximum !== undefined) return `from ${minimum} to ${maximum}`;
  return `at ${keyword === 'minimum' ? 'least' : 'most'} ${limit}`;
}

function withArticle(type: unknown): string {
  const noun = type === 'array' ? 'list' : String(type);
  if (noun === 'null') return noun;
  return `${/^[aeio]/.test(noun) ? 'an' : 'a'} ${noun}`;
}
