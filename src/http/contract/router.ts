/**
 * Maps method and path to an operation: a tree of path segments, built from the paths of the contract.
 *
 * A lookup costs one map access per segment, however many operations there are. A fixed segment wins over a parameter,
 * so `/v1/leases/self` is never the lease called "self". What clients choose (`{name}`, `{key}`) may equal a fixed
 * segment, though: `POST /v1/locks/acquire` takes many locks, `GET /v1/locks/acquire` shows the lock "acquire".
 *
 * A parameter that the contract marks with `x-rest` takes all remaining segments: both `/v1/config/a/b` and
 * `/v1/config/a%2Fb` are the key "a/b" of `/v1/config/{key}`.
 */
import type { Operation } from './openapi.js';

interface Node {
  readonly fixed: Map<string, Node>;
  parameter?: { name: string; node: Node; rest: boolean };
  /** By method; undefined if no path of the contract ends here. */
  operations?: Map<string, Operation>;
}

export interface Found {
  readonly operation: Operation;
  /** The path's parameters, from the decoded segments; not yet validated. */
  readonly params: Record<string, string>;
}

/** What a path leads to: an operation, other methods only (for `Allow`), or nothing. */
export type Match = Found | { readonly allow: string } | undefined;

export class Router {
  readonly #root: Node = { fixed: new Map() };

  constructor(operations: readonly Operation[]) {
    for (const operation of operations) {
      const rest = operation.parameters.find((parameter) => parameter.in === 'path' && parameter['x-rest'] === true);
      const node = segmentsOf(operation.template).reduce((at, segment) => descend(at, segment, rest?.name), this.#root);
      node.operations ??= new Map();
      node.operations.set(operation.method, operation);
    }
  }

  /**
   * HEAD is served like GET.
   * @param segments the decoded parts of the path between its slashes
   */
  match(method: string, segments: readonly string[]): Match {
    // An empty name at the end would turn the path into another one, with a baffling answer.
    if (segments.length > 1 && segments.at(-1) === '') return undefined;
    const ends: End[] = [];
    collectEnds(this.#root, segments, 0, undefined, ends);
    const wanted = method === 'HEAD' ? 'GET' : method;
    for (const { operations, bound } of ends) {
      const operation = operations.get(wanted);
      if (operation !== undefined) return { operation, params: paramsOf(bound) };
    }
    return ends.length === 0 ? undefined : { allow: allowOf(ends.flatMap(({ operations }) => [...operations.keys()])) };
  }

  /** The fixed segments that may follow `segments` in a path. */
  verbsBelow(segments: readonly string[]): string[] {
    let node: Node | undefined = this.#root;
    for (const segment of segments) node = node?.fixed.get(segment) ?? node?.parameter?.node;
    return node === undefined ? [] : [...node.fixed.keys()];
  }
}

/** The parameters whose values clients choose; ids are made here and never equal a fixed segment. */
const CHOSEN: readonly string[] = ['name', 'key'];

/** A parameter and its value, after those before it in the path. */
interface Bound {
  readonly name: string;
  readonly value: string;
  readonly before: Bound | undefined;
}

interface End {
  readonly operations: ReadonlyMap<string, Operation>;
  readonly bound: Bound | undefined;
}

/** Collects where the segments from `at` lead, the most fixed path first. */
function collectEnds(node: Node, segments: readonly string[], at: number, bound: Bound | undefined, ends: End[]): void {
  const segment = segments[at];
  if (segment === undefined) {
    if (node.operations !== undefined) ends.push({ operations: node.operations, bound });
    return;
  }
  const fixed = node.fixed.get(segment);
  if (fixed !== undefined) collectEnds(fixed, segments, at + 1, bound, ends);
  if (node.parameter === undefined || (fixed !== undefined && !CHOSEN.includes(node.parameter.name))) return;
  const { name, node: next, rest } = node.parameter;
  const value = rest ? segments.slice(at).join('/') : segment;
  collectEnds(next, segments, rest ? segments.length : at + 1, { name, value, before: bound }, ends);
}

function paramsOf(bound: Bound | undefined): Record<string, string> {
  const params: Record<string, string> = {};
  for (let one = bound; one !== undefined; one = one.before) params[one.name] = one.value;
  return params;
}

/** @param rest the parameter, if any, that takes all remaining segments */
function descend(node: Node, segment: string, rest: string | undefined): Node {
  const name = /^\{(.+)\}$/.exec(segment)?.[1];
  if (name !== undefined) return (node.parameter ??= { name, node: { fixed: new Map() }, rest: name === rest }).node;
  let next = node.fixed.get(segment);
  if (next === undefined) {
    next = { fixed: new Map() };
    node.fixed.set(segment, next);
  }
  return next;
}

function segmentsOf(template: string): string[] {
  return template.split('/').slice(1);
}

function allowOf(methods: readonly string[]): string {
  return [...new Set([...(methods.includes('GET') ? ['HEAD'] : []), ...methods, 'OPTIONS'])].sort().join(', ');
}
