/** Transactions and versions against a real server: all or nothing, and exactly the version that was named. */
import { beforeEach, describe, expect, it } from 'vitest';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { controlIn, rejection } from '../support/zookeeper/sessions.js';

let root: string;
beforeEach(() => {
  root = freshRoot();
});

describe('versions', () => {
  it('are compared exactly by delete, setData and check: 0 is version 0, not "any" (defect 13)', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n');
    await control.setData('/n', Buffer.from('1'), 0);
    const stat = await control.setData('/n', Buffer.from('2'));
    expect(stat.version).toBe(2);
    const badVersion = { reason: 'BAD_VERSION' };
    expect(await rejection(control.setData('/n', Buffer.from('x'), 0))).toMatchObject(badVersion);
    expect(await rejection(control.delete('/n', 0))).toMatchObject(badVersion);
    for (const stale of [
      { type: 'check', path: '/n', version: 0 },
      { type: 'setData', path: '/n', data: Buffer.from('x'), version: 0 },
      { type: 'delete', path: '/n', version: 0 },
    ] as const) {
      expect(await rejection(control.multi([{ type: 'create', path: '/never' }, stale]))).toMatchObject({
        ...badVersion,
        failedIndex: 1,
      });
    }
    expect(await control.exists('/never')).toBeUndefined();
    await control.multi([
      { type: 'check', path: '/n', version: 2 },
      { type: 'delete', path: '/n', version: 2 },
    ]);
    expect(await control.exists('/n')).toBeUndefined();
  });
});

describe('multi', () => {
  it('answers every operation with what it did', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/gone');
    const [a, seq, container, set, gone, check] = await control.multi([
      { type: 'create', path: '/a', data: Buffer.from('a') },
      { type: 'create', path: '/s-', mode: 'ephemeral-sequential' },
      { type: 'create', path: '/c', mode: 'container' },
      { type: 'setData', path: '/a', data: Buffer.from('b') },
      { type: 'delete', path: '/gone' },
      { type: 'check', path: '/a' },
    ]);
    expect(a).toMatchObject({ type: 'create', path: '/a', stat: { version: 0 } });
    expect(seq).toMatchObject({ type: 'create', path: '/s-0000000002', stat: { ephemeralOwner: control.sessionId } });
    expect(container).toMatchObject({ type: 'create', path: '/c' });
    expect(set).toMatchObject({ type: 'setData', stat: { version: 1 } });
    expect([gone, check]).toEqual([{ type: 'delete' }, { type: 'check' }]);
    for (const made of [a, seq, container]) {
      if (made?.type !== 'create') throw new Error('not a create');
      const { czxid, pzxid, version, dataLength, ephemeralOwner } = made.stat;
      const node = await control.exists(made.path);
      // The second write of the same transaction is in what is read now, not in what the create said.
      const since = made === a ? { version: 1, dataLength: 1 } : { version, dataLength };
      expect(node).toMatchObject({ czxid, pzxid, ephemeralOwner, ...since });
    }
  });

  it('does nothing at all when one operation fails, and names that one', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    for (const index of [0, 1, 2]) {
      const items = [0, 1, 2].map((i) =>
        i === index ? ({ type: 'delete', path: '/no' } as const) : ({ type: 'create', path: `/n${i}` } as const),
      );
      expect(await rejection(control.multi(items))).toMatchObject({ reason: 'NO_NODE', failedIndex: index });
    }
    expect((await control.getChildren('/')).children).toEqual([]);
    expect(await control.multi([])).toEqual([]);
  });

  it('reads many nodes at once, each with a result of its own', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/a', Buffer.from('A'));
    await control.create('/a/child');
    const { results, zxid } = await control.multiRead([
      { type: 'getData', path: '/a' },
      { type: 'getData', path: '/no' },
      { type: 'getChildren', path: '/a' },
    ]);
    expect(results).toMatchObject([
      { data: Buffer.from('A'), stat: { numChildren: 1 } },
      { error: -101 },
      { children: ['child'] },
    ]);
    expect(zxid).toBeGreaterThan(0);
  });
});
