/** How chores go over all that is there. */
import { describe, expect, test } from 'vitest';
import { Layout } from '../../../src/leases/layout.js';
import { IdleTimes, type Idle } from '../../../src/recipes/housekeeping/idle-times.js';
import { Sweep } from '../../../src/recipes/housekeeping/sweep.js';
import { NoReplyError } from '../../../src/zookeeper/errors.js';
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

describe('what fails in one namespace', () => {
  test.each([
    ['was refused', new Error('refused')],
    ['had no answer in time', new NoReplyError('the push', 'deadline', true)],
  ])('and %s is told, and holds up no other one', async (_, failure) => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await makeGroups(control, ['x', 'y']);
    const seen: string[] = [];
    const told: unknown[] = [];
    const sweep = new Sweep(
      { control, layout },
      () => false,
      (error, what) => told.push([error, what]),
    );
    await sweep.eachNamespace((namespace) => {
      seen.push(namespace);
      return Promise.reject(failure);
    });
    expect(seen.sort()).toEqual(['x', 'y']);
    expect(told.sort()).toEqual(['x', 'y'].map((name) => [failure, `namespace "${name}"`]));
  });

  test('with the session ends the round, and is told once', async () => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await makeGroups(control, ['x', 'y']);
    const seen: string[] = [];
    const told: unknown[] = [];
    const sweep = new Sweep(
      { control, layout },
      () => false,
      (error) => told.push(error),
    );
    const round = sweep.eachNamespace(async (namespace) => {
      seen.push(namespace);
      await sweep.apart('a queue', async () => {
        await control.stop();
        await sweep.children('/');
      });
    });
    await expect(round).rejects.toThrow(NoReplyError);
    expect([seen.length, told.length]).toEqual([1, 0]);
  });

  test('takes nothing from what is known of its idle directories', async () => {
    await using control = await controlIn(sharedZooKeeper(), freshRoot());
    await makeGroups(control, ['x', 'y']);
    const sweep = new Sweep(
      { control, layout },
      () => false,
      () => undefined,
    );
    const times = new IdleTimes<Idle>();
    const parentsIn = (namespace: string): { path: string }[] => [{ path: layout.groups(namespace) }];
    const idle = { pzxid: 7, since: 1 };
    const known: (Idle | undefined)[] = [];
    const look = (fails: boolean): Promise<void> =>
      times.sweep(sweep, parentsIn, (directory, before) => {
        known.push(before);
        if (fails && directory.startsWith(`${parentsIn('x')[0]?.path}/`)) throw new Error('refused');
        return Promise.resolve(idle);
      });
    await look(false);
    await look(true);
    known.length = 0;
    await look(false);
    expect(known).toEqual([idle, idle, idle, idle]);
  });
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
