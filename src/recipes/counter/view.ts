/**
 * The public view of counters. One is read behind a quorum, unless asked otherwise, a list of them after a `sync`.
 */
import type { Page } from '../../page.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { decodeCounter, stateOf, UNUSED_COUNTER, type CounterState } from './counter.js';

/** As the server at hand knows it. One that was never used, or was deleted, is 0. */
export async function readCounterStale(zk: BoundClient, name: string, path: string): Promise<CounterState> {
  const node = await zk.find(path);
  return node === undefined ? UNUSED_COUNTER : decodeCounter(name, node).state;
}

/** Counters that exist, in the order of their names. A page has fewer where some were deleted lately. */
export async function listCounters(
  zk: BoundClient,
  parent: string,
  page: Page,
  stale: boolean,
): Promise<{ items: { name: string; value: number }[]; next: string | undefined }> {
  if (!stale) await zk.sync(parent);
  const names = (await zk.names(parent)).page(page);
  const shown = names.slice(0, page.limit);
  const nodes = await readNodes(
    zk,
    shown.map((name) => `${parent}/${name}`),
  );
  const items = nodes.flatMap((node, i) => {
    const state = node === undefined ? undefined : stateOf(shown[i] as string, node);
    return state?.exists === true ? [{ name: shown[i] as string, value: state.value }] : [];
  });
  return { items, next: names.length > page.limit ? shown.at(-1) : undefined };
}
