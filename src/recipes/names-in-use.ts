/**
 * Lists the names in use: those whose directory is not empty. A directory stays for about an hour after its last use
 * (ADR 3), so where many names are short-lived, nearly all are empty. Hundreds are checked in one request before any is
 * described, and after a bounded number the page ends, however few names it has: the next one continues behind the last
 * name checked.
 */
import type { Page } from '../page.js';
import type { BoundClient } from '../zookeeper/bound.js';
import { readNodes, type ReadNode } from '../zookeeper/read-nodes.js';
import { PAGE_LENGTH } from './full-page.js';

/** What is in a directory is a few bytes. */
const LOOKED_AT_ONCE = 400;
/** Directories that one page looks at. */
const LOOKED_MAX = 2_000;
/** So many nodes in directories are described together, or those of one directory if it has more. */
const DESCRIBED_AT_ONCE = 500;

export interface InUse<T> {
  /** Whether a name may be in use although its directory is empty; `describe` tells. */
  readonly mayBeInUse?: (node: ReadNode) => boolean;
  /** How many characters that callers gave an item has. */
  readonly lengthOf?: (item: T) => number;
}

/** @param describe what is in the list under that name; undefined when there is nothing in it any more */
export async function listInUse<T extends { name: string }>(
  zk: BoundClient,
  parent: string,
  page: Page,
  describe: (name: string, node: ReadNode) => Promise<T | undefined>,
  { mayBeInUse = () => false, lengthOf = () => 0 }: InUse<T> = {},
): Promise<{ items: T[]; next: string | undefined }> {
  await zk.sync(parent);
  const names = (await zk.names(parent)).page(page, LOOKED_MAX + 1);
  const end = Math.min(names.length, LOOKED_MAX);
  const items: T[] = [];
  let length = 0;
  for (let i = 0; i < end; i += LOOKED_AT_ONCE) {
    const batch = names.slice(i, Math.min(i + LOOKED_AT_ONCE, end));
    const paths = batch.map((name) => `${parent}/${name}`);
    const nodes = await readNodes(zk, paths, LOOKED_AT_ONCE);
    const inUse = batch.flatMap((name, at) => {
      const node = nodes[at];
      return node !== undefined && (node.stat.numChildren > 0 || mayBeInUse(node)) ? [{ name, node }] : [];
    });
    for (const some of describedTogether(inUse, page.limit)) {
      for (const item of await Promise.all(some.map(({ name, node }) => describe(name, node)))) {
        if (item === undefined) continue;
        length += lengthOf(item);
        if (items.length === page.limit || (items.length > 0 && length > PAGE_LENGTH))
          return { items, next: items.at(-1)?.name };
        items.push(item);
      }
    }
  }
  return { items, next: names.length > end ? names[end - 1] : undefined };
}

interface Named {
  readonly name: string;
  readonly node: ReadNode;
}

/** In their order: as many as the page may have, unless many nodes are in them. */
function* describedTogether(inUse: readonly Named[], most: number): Generator<Named[]> {
  let some: Named[] = [];
  let nodes = 0;
  for (const one of inUse) {
    const { numChildren } = one.node.stat;
    if (some.length === most || (some.length > 0 && nodes + numChildren > DESCRIBED_AT_ONCE)) {
      yield some;
      some = [];
      nodes = 0;
    }
    some.push(one);
    nodes += numChildren;
  }
  if (some.length > 0) yield some;
}
