/**
 * The line of an election as a foreign client reads it.
 */
import { unless } from '../../../src/zookeeper/errors.js';
import type { Pair, Replica } from '../../support/start-gateway.js';

/** The nodes in line, in order, as a foreign client reads them. */
export async function nodesOf(pair: Pair | { a: Replica }, name: string): Promise<{ path: string; data: string }[]> {
  const { control, layout } = pair.a.gateway.context;
  const directory = layout.line('election', 'default', name);
  await control.sync(directory);
  const { children } = await control.getChildren(directory);
  const paths = children
    .filter((child) => !child.includes('-tail-latch-'))
    .sort((a, b) => a.slice(-10).localeCompare(b.slice(-10)))
    .map((child) => `${directory}/${child}`);
  const nodes = await Promise.all(paths.map((path) => unless(control.getData(path), 'NO_NODE')));
  return nodes.flatMap((node, i) => (node === undefined ? [] : [{ path: paths[i]!, data: node.data.toString() }]));
}
