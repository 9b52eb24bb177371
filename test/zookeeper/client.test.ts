/** Every operation against a real server: what it does, what it answers, and how it is refused. */
import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { MAX_PACKET_BYTES } from '../../src/zookeeper/connection/requests.js';
import type { CreateMode } from '../../src/zookeeper/operations.js';
import { parseSequence } from '../../src/zookeeper/paths.js';
import { eventually } from '../support/eventually.js';
import { freshRoot, sharedZooKeeper, startZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import { countBelow, getAcl, setAcl, whoAmI } from '../support/zookeeper/instruments.js';
import { TestControl, controlIn, rejection, within } from '../support/zookeeper/sessions.js';

let root: string;
beforeEach(() => {
  root = freshRoot();
});

describe('create', () => {
  it('answers with the Stat of the new node: its czxid is the fencing token', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    const before = Date.now();
    const first = await control.create('/a', Buffer.from('one'));
    const second = await control.create('/b');
    expect(first.path).toBe('/a');
    expect(second.stat.czxid).toBeGreaterThan(first.stat.czxid);
    const read = await control.getData('/a');
    expect(read.data.toString()).toBe('one');
    expect(read.stat).toEqual(first.stat);
    expect(read.zxid).toBeGreaterThanOrEqual(second.stat.czxid);
    expect(first.stat).toMatchObject({ version: 0, ephemeralOwner: 0n, dataLength: 3, numChildren: 0 });
    expect(Math.abs(first.stat.ctime - before)).toBeLessThan(5_000);
    expect(Math.abs(control.view.clock.now() - Date.now())).toBeLessThan(5_000);
  });

  // The server keeps a mark in place of an owner for containers, and shows clients 0 for it.
  const nobody = (owner: bigint): boolean => owner === 0n;
  const session = (owner: bigint, own: bigint): boolean => owner === own;
  const owners: Record<CreateMode, (owner: bigint, own: bigint) => boolean> = {
    persistent: nobody,
    'persistent-sequential': nobody,
    ephemeral: session,
    'ephemeral-sequential': session,
    container: nobody,
  };
  for (const [mode, owns] of Object.entries(owners) as [CreateMode, (typeof owners)[CreateMode]][]) {
    it(`makes ${mode} nodes`, async () => {
      await using control = await controlIn(sharedZooKeeper(), root);
      const made = [];
      for (let i = 0; i < 2; i += 1)
        made.push(await control.create(`/n-${mode.endsWith('sequential') ? '' : i}`, Buffer.from('x'), { mode }));
      for (const { stat, path } of made) {
        expect(owns(stat.ephemeralOwner, control.sessionId), `owner ${stat.ephemeralOwner}`).toBe(true);
        expect(await control.exists(path)).toEqual(stat);
      }
      if (mode.endsWith('sequential')) expect(made.map(({ path }) => parseSequence(path))).toEqual([0, 1]);
    });
  }

  it('makes containers that go when they were used and are empty', async () => {
    await using zookeeper = await startZooKeeper({ jvmFlags: ['-Dznode.container.checkIntervalMs=100'] });
    await using control = await TestControl.open(zookeeper.connectString);
    await control.create('/container', undefined, { mode: 'container' });
    await control.create('/container/child');
    await control.create('/plain');
    expect(await control.exists('/container')).toBeDefined();
    await control.delete('/container/child');
    await eventually('the container goes', async () => (await control.exists('/container')) === undefined);
    expect(await control.exists('/plain')).toBeDefined();
  });

  it('is refused where there is a node, where there is no parent, and below an ephemeral', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/a', undefined, { mode: 'ephemeral' });
    expect(await rejection(control.create('/a'))).toMatchObject({
      reason: 'NODE_EXISTS',
      number: -110,
      outcome: 'not-applied',
    });
    expect(await rejection(control.create('/no/child'))).toMatchObject({ reason: 'NO_NODE' });
    expect(await rejection(control.create('/a/child'))).toMatchObject({ reason: 'NO_CHILDREN_FOR_EPHEMERALS' });
    expect(await rejection(control.create('/.'))).toMatchObject({ reason: 'BAD_ARGUMENTS' });
  });
});

describe('reading', () => {
  it('a node that is not there is no error for exists, and one for the others', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    expect(await control.exists('/no')).toBeUndefined();
    for (const read of [control.getData('/no'), control.getChildren('/no')]) {
      expect(await rejection(read)).toMatchObject({ reason: 'NO_NODE', code: 'zookeeper-error' });
    }
  });

  it('answers own ephemerals, and a zxid that never falls', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/a');
    await control.create('/a/b');
    await control.create('/a/b/e', undefined, { mode: 'ephemeral' });
    await control.create('/ab', undefined, { mode: 'ephemeral' });
    expect((await control.getEphemerals()).sort()).toEqual(['/a/b/e', '/ab']);
    expect(await control.getEphemerals('/a')).toEqual(['/a/b/e']);
    const reached = await control.sync();
    const { stat } = await control.create('/later');
    expect(stat.czxid).toBeGreaterThan(reached);
    expect(await control.sync('/later')).toBeGreaterThanOrEqual(stat.czxid);
  });

  it(
    'takes 20 000 children in one answer',
    async () => {
      await using control = await controlIn(sharedZooKeeper(), root);
      const names = Array.from({ length: 20_000 }, (_, i) => `child-with-a-name-${i}`);
      for (let i = 0; i < names.length; i += 2_000) {
        await control.multi(names.slice(i, i + 2_000).map((name) => ({ type: 'create', path: `/${name}` })));
      }
      const { children, stat } = await control.getChildren('/');
      expect(stat.numChildren).toBe(20_000);
      expect(new Set(children)).toEqual(new Set(names));
      await control.removeRecursive('/');
      expect(await control.exists('/')).toBeUndefined();
    },
    timing.processMs,
  );
});

describe('sizes', () => {
  it('are limited by us to what the server takes: the largest request passes, one byte more is refused here (defect 15)', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    const overhead = 8 + 4 + root.length + '/n'.length + 4 + 4; // header, path, length of the data, version
    await control.create('/n');
    const largest = Buffer.alloc(MAX_PACKET_BYTES - overhead, 1);
    expect((await control.setData('/n', largest)).dataLength).toBe(largest.length);
    const session = control.sessionId;
    expect(await rejection(control.setData('/n', Buffer.concat([largest, Buffer.alloc(1)])))).toMatchObject({
      code: 'too-large',
      members: { maxBytes: MAX_PACKET_BYTES },
    });
    expect((await control.getData('/n')).data.equals(largest)).toBe(true);
    expect(control.observer.events).toEqual(['connected']);
    expect(control.sessionId).toBe(session);
  });

  it('of nothing and of no value are told apart from an error: empty data is data, null is refused before it is sent (defect 14)', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    await control.create('/n', new Uint8Array(0));
    expect((await control.getData('/n')).data).toHaveLength(0);
    expect(await rejection(control.setData('/n', null as never))).toBeInstanceOf(TypeError);
    expect(await rejection(control.delete('/n', 2 ** 31))).toBeInstanceOf(RangeError);
    expect((await control.setData('/n', new Uint8Array(0))).version).toBe(1);
    expect(control.observer.events).toEqual(['connected']);
  });
});

describe('trees', () => {
  it('are removed whole, however deep and wide (defect 16)', async () => {
    await using control = await controlIn(sharedZooKeeper(), root);
    let path = '';
    for (let depth = 0; depth < 6; depth += 1) {
      path += `/level-${depth}`;
      await control.ensurePath(path);
      await control.multi([1, 2, 3].map((i) => ({ type: 'create', path: `${path}/leaf-${i}` })));
    }
    await control.multi(Array.from({ length: 450 }, (_, i) => ({ type: 'create', path: `/level-0/many-${i}` })));
    await control.create('/beside');
    await control.removeRecursive('/level-0', within());
    expect((await control.getChildren('/')).children).toEqual(['beside']);
    await control.removeRecursive('/level-0'); // what is gone is gone
  });

  it('are made whole: a path, and a chroot that does not exist yet', async () => {
    await using control = await TestControl.open(`${sharedZooKeeper()}${root}/deep/chroot`);
    expect(await rejection(control.create('/x'))).toMatchObject({ reason: 'NO_NODE' });
    await control.ensureChroot();
    await control.ensureChroot();
    await control.ensurePath('/a/b/c');
    await control.ensurePath('/a/b/c');
    await control.ensurePath('/');
    expect(await countBelow(control, '/')).toBe(3);
    await using outside = await TestControl.open(sharedZooKeeper());
    expect(await outside.exists(`${root}/deep/chroot/a/b/c`)).toBeDefined();
  });
});

describe('access', () => {
  const secret = 'user:secret';
  const digest = `user:${createHash('sha1').update(secret).digest('base64')}`;
  const own = [{ permission: 31, id: { scheme: 'digest', id: digest } }];
  const credentials = [{ scheme: 'digest', auth: Buffer.from(secret) }];

  it('by digest is what a client with the secret has, and no other (defect 25)', async () => {
    await using owner = await TestControl.open(sharedZooKeeper() + root, {}, { credentials, acl: own });
    await using other = await TestControl.open(sharedZooKeeper() + root);
    await owner.ensureChroot();
    await owner.create('/n', Buffer.from('private'));
    expect(await owner.submit(getAcl(`${root}/n`))).toMatchObject({ acl: own, stat: { aversion: 0 } });
    expect(await owner.submit(whoAmI())).toContainEqual({ scheme: 'digest', user: 'user' });
    for (const refused of [
      other.getData('/n'),
      other.setData('/n', Buffer.from('x')),
      other.create('/n/x'),
      other.delete('/n'),
      other.getChildren('/n'),
    ]) {
      expect(await rejection(refused)).toMatchObject({ reason: 'NO_AUTH', outcome: 'not-applied' });
    }
    const open = [{ permission: 1, id: { scheme: 'world', id: 'anyone' } }, ...own];
    expect(await owner.submit(setAcl(`${root}/n`, open, 0))).toMatchObject({ aversion: 1 });
    expect(await rejection(owner.submit(setAcl(`${root}/n`, own, 0)))).toMatchObject({ reason: 'BAD_VERSION' });
    expect((await other.getData('/n')).data.toString()).toBe('private');
  });
});
