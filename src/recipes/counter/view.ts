/** What everybody may see of counters. Up to date: read after a `sync`, unless asked otherwise. */
import { pageOfNames, type Page } from '../../page.js';
import { unless } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import { readNodes } from '../read-nodes.js';
import { decodeCounter, valueOf } from './counter.js';
import { counterEtag, UNUSED_COUNTER, type CounterState } from './observers.js';

type Context = Pick<Coordination, 'control' | 'layout'>;

/** One that was never used is 0. */
export async function readCounter(
  { control, layout }: Context,
  namespace: string,
  name: string,
  deadline: number,
  stale: boolean,
): Promise<CounterState> {
  const path = layout.counter(namespace, name);
  const [, node] = await Promise.all([
    stale ? undefined : control.sync(path, deadline),
    unless(control.getData(path, deadline), 'NO_NODE'),
  ]);
  return node === undefined ? UNUSED_COUNTER : { value: decodeCounter(name, node).value, etag: counterEtag(node.stat) };
}

/** Counters that were used, in the order of their names. */
export async function listCounters(
  { control, layout }: Context,
  namespace: string,
  page: Page,
  deadline: number,
  stale: boolean,
): Promise<{ items: { name: string; value: number }[]; next: string | undefined }> {
  const parent = layout.counters(namespace);
  if (!stale) await control.sync(parent, deadline);
  const names = pageOfNames((await unless(control.getChildren(parent, deadline), 'NO_NODE'))?.children ?? [], page);
  const shown = names.slice(0, page.limit);
  const nodes = await readNodes(
    control,
    shown.map((name) => layout.counter(namespace, name)),
    deadline,
  );
  const items = nodes.flatMap((node, i) => {
    const value = node === undefined ? undefined : valueOf(node.data);
    return value === undefined ? [] : [{ name: shown[i] as string, value }];
  });
  return { items, next: names.length > page.limit ? shown.at(-1) : undefined };
}
