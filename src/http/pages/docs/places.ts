/** Which page shows what: one for each tag, with the objects that it alone uses, and one for all other objects. */
import type { Document, OpenApi, Operation } from '../../contract/openapi.js';
import { isObject } from './schema-view.js';

export interface Places {
  /** The path of the page of a tag. */
  tag(name: string): string;
  operation(operation: Operation): string;
  /** Undefined for schemas without a table of their own. */
  object(name: string): string | undefined;
  /** The names of the objects that this page shows, in the order of the contract. */
  objectsAt(path: string): readonly string[];
}

export const INDEX = '/docs';
export const INTRODUCTION = '/docs/introduction';
export const PROBLEMS = '/docs/problems';
export const OBJECTS = '/docs/objects';

/** `Read-write locks` as `read-write-locks`. */
export function slugOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}

export function placesOf({ document, operations }: OpenApi): Places {
  const tag = (name: string): string => `${INDEX}/${slugOf(name)}`;
  const pageOf = (operation: Operation): string => tag(operation.source.tags[0] ?? '');
  const users = new Map<string, Set<string>>();
  for (const operation of operations)
    for (const name of usedBy(document, operation)) {
      const pages = users.get(name) ?? new Set();
      users.set(name, pages.add(pageOf(operation)));
    }
  const homes = new Map<string, string>();
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const [only, ...others] = users.get(name) ?? [];
    if (isObject(schema)) homes.set(name, only === undefined || others.length > 0 ? OBJECTS : only);
  }
  return {
    tag,
    operation: (operation) => `${pageOf(operation)}#${operation.operationId}`,
    object: (name) => (homes.has(name) ? `${homes.get(name)}#schema-${name}` : undefined),
    objectsAt: (path) => [...homes].filter(([, home]) => home === path).map(([name]) => name),
  };
}

/** The schemas that an operation leads to. */
function usedBy({ components }: Document, { parameters, source, responses }: Operation): ReadonlySet<string> {
  const found = new Set<string>();
  const collect = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (found.has(name)) continue;
      found.add(name);
      collect(components.schemas[name] ?? {});
    }
  };
  collect([parameters, source.requestBody ?? {}, responses]);
  return found;
}
