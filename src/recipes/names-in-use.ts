/**
 * Lists the names in use: those whose directory is not empty. A directory stays for about an hour after its last use
 * (ADR 3), so where many names are short-lived, nearly all are empty. Hundreds are checked in one request before any is
 * described, and after a bounded number the page ends, however few names it has: the next one continues behind the last
 * name checked.
 */
import type { Page } from '../page.js';
import type { BoundClient } from '../zookeeper/bound.js';
import { readNodes, type ReadNode } from '../zookeeper/read-nodes.js';

/** What is in a directory is a few bytes. */
const LOOKED_AT_ONCE = 400;
/** Directories that one page looks at. */
const LOOKED_MAX = 2_000;

/**
 * @param describe what is in the list under that name; undefined when there is nothing in it any more
 * @param mayBeInUse whether a name may be in use although its directory is empty; `describe` tells
 */
export async function listInUse<T extends { name: string }>(
  zk: BoundClient,
  parent: string,
  page: Page,
  describe: (name: string, node: ReadNode) => Promise<T | undefined>,
  mayBeInUse: (node: ReadNode) => boolean = () => false,
): Promise<{ items: T[]; next: string | undefined }> {
  await zk.sync(parent);
  const names = (await zk.names(parent)).page(page, LOOKED_MAX + 1);
  const end = Math.min(names.length, LOOKED_MAX);
  const items: T[] = [];
  for (let i = 0; i < end; i += LOOKED_AT_ONCE) {
    const batch = names.slice(i, Math.min(i + LOOKED_AT_ONCE, end));
    const paths = batch.map((name) => `${parent}/${name}`);
    const nodes = await readNodes(zk, paths, LOOKED_AT_ONCE);
    const inUse = batch.flatMap((name, at) => {
      const node = nodes[at];
      return node !== undefined && (node.stat.numChildren > 0 || mayBeInUse(node)) ? [{ name, node }] : [];
    });
    for (let j = 0; j < inUse.length; j += page.limit) {
      const described = inUse.slice(j, j + page.limit).map(({ name, node }) => describe(name, node));
      for (const item of await Promise.all(described)) {
        if (item === undefined) continue;
        if (items.length === page.limit) return { items, next: items.at(-1)?.name };
        items.push(item);
      }
    }
  }
  return { items, next: names.length > end ? names[end - 1] : undefined };
}
