/** How chores go over all that is there. */
import { expect, test } from 'vitest';
import { Layout } from '../../../src/leases/layout.js';
import { IdleTimes, type Idle } from '../../../src/recipes/housekeeping/idle-times.js';
import { Sweep } from '../../../src/recipes/housekeeping/sweep.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { controlIn, within, type TestControl } from '../../support/zookeeper/sessions.js';

const layout = new Layout('/gateway');

async function makeGroups(control: TestControl, namespaces: readonly string[]): Promise<void> {
  for (const namespace of namespaces)
    for (const group of ['a', 'b']) await control.ensurePath(layout.group(namespace, group), within());
}

test('a sweep goes over every namespace, in batches, and over nothing where there is nothing', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const sweep = new Sweep({ control, layout }, () => false);
  expect(await sweep.children(layout.namespaces)).toEqual([]);
  await makeGroups(control, ['x', 'y']);
  const seen: string[] = [];
  await sweep.eachNamespace(async (namespace) => {
    for (const name of await sweep.children(layout.groups(namespace))) seen.push(`${namespace}/${name}`);
  });
  expect(seen.sort()).toEqual(['x/a', 'x/b', 'y/a', 'y/b']);
  const batches: number[][] = [];
  await sweep.batches([1, 2, 3, 4, 5], 2, async (batch) => batches.push(batch));
  expect(batches).toEqual([[1, 2], [3, 4], [5]]);
});

test('a sweep goes no further once the replica shuts down', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  await makeGroups(control, ['x', 'y']);
  const seen: unknown[] = [];
  const isStopped = (): boolean => seen.length > 0;
  const sweep = new Sweep({ control, layout }, isStopped);
  await sweep.eachNamespace(async (namespace) => seen.push(namespace));
  await sweep.batches([1, 2, 3], 1, async (batch) => seen.push(batch));
  await sweep.each([1, 2, 3], async (item) => seen.push(item));
  expect(seen).toHaveLength(1);
});

test('what is known of idle directories outlives a sweep that fails, and is forgotten of those in use', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  await makeGroups(control, ['x']);
  const sweep = new Sweep({ control, layout }, () => false);
  const times = new IdleTimes<Idle>();
  const known = new Map<string, Idle | undefined>();
  const parentsIn = (namespace: string): { path: string }[] => [{ path: layout.groups(namespace) }];
  const idle = { pzxid: 7, since: 1 };
  const look = (next: (directory: string) => Idle | undefined): Promise<void> =>
    times.sweep(sweep, parentsIn, async (directory, before) => {
      known.set(directory, before);
      return next(directory);
    });
  const [a, b] = [layout.group('x', 'a'), layout.group('x', 'b')];
  await look(() => idle);
  await expect(
    look(() => {
      throw new Error('ZooKeeper is away');
    }),
  ).rejects.toThrow('ZooKeeper is away');
  await look((directory) => (directory === a ? idle : undefined));
  expect([known.get(a), known.get(b)]).toEqual([idle, idle]);
  await look(() => idle);
  expect([known.get(a), known.get(b)]).toEqual([idle, undefined]);
});
