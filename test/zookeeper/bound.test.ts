/** A client with a bound deadline, against a real server: the client's own answers and errors, and the one deadline. */
import { expect, test } from 'vitest';
import { LeaseSession } from '../../src/zookeeper/lease-session.js';
import { freshRoot, sharedZooKeeper, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import {
  controlIn,
  NOTHING_SENT,
  OUTCOME_UNKNOWN,
  rejection,
  TestControl,
  within,
} from '../support/zookeeper/sessions.js';

test('does and answers what the client does', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const zk = control.until(within());
  await zk.ensure('/a/b');
  const made = await zk.create('/a/b/n', Buffer.from('1'));
  expect(made.path).toBe('/a/b/n');
  expect((await zk.create('/a/b/s-', undefined, 'ephemeral-sequential')).path).toBe('/a/b/s-0000000001');
  expect((await zk.set('/a/b/n', Buffer.from('2'), 0)).version).toBe(1);
  expect((await zk.set('/a/b/n', Buffer.from('3'))).version).toBe(2);
  const [set] = await zk.multi([
    { type: 'setData', path: '/a/b/n', data: Buffer.from('4'), version: 2 },
    { type: 'create', path: '/a/b/m' },
  ]);
  expect(set).toMatchObject({ type: 'setData', stat: { version: 3 } });
  expect(String((await zk.get('/a/b/n')).data)).toBe('4');
  expect(await zk.find('/a/b/n')).toMatchObject({ data: Buffer.from('4'), stat: { czxid: made.stat.czxid } });
  expect(await zk.exists('/a/b/n')).toMatchObject({ version: 3 });
  expect((await zk.children('/a/b')).sort()).toEqual(['m', 'n', 's-0000000001']);
  const listed = await zk.list('/a/b');
  expect(listed).toMatchObject({ stat: { numChildren: 3 } });
  // Other tests write to the same server.
  expect(listed?.zxid).toBeGreaterThanOrEqual(listed?.stat.pzxid ?? Infinity);
  expect(await zk.sync('/')).toBeGreaterThanOrEqual(listed?.zxid ?? Infinity);
  expect(await zk.ephemerals('/a')).toEqual(['/a/b/s-0000000001']);
  const { results } = await zk.multiRead([{ type: 'getData', path: '/a/b/n' }]);
  expect(results).toMatchObject([{ data: Buffer.from('4') }]);
  await zk.remove('/a/b/n', 3);
  await zk.remove('/a/b/m');
  expect(await zk.children('/a/b')).toEqual(['s-0000000001']);
});

test('a missing node is an answer to find, exists, list and children, and an error to whatever needs it', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const zk = control.until(within());
  expect([await zk.find('/none'), await zk.exists('/none'), await zk.list('/none')]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(await zk.children('/none')).toEqual([]);
  const asked = [zk.get('/none'), zk.set('/none', Buffer.from('')), zk.remove('/none'), zk.create('/none/below')];
  for (const { reason } of (await Promise.all(asked.map(rejection))) as { reason?: string }[])
    expect(reason).toBe('NO_NODE');
  await zk.create('/n');
  expect(await rejection(zk.create('/n'))).toMatchObject({ reason: 'NODE_EXISTS' });
  expect(await rejection(zk.set('/n', Buffer.from(''), 1))).toMatchObject({ reason: 'BAD_VERSION' });
  expect(await rejection(zk.remove('/n', 1))).toMatchObject({ reason: 'BAD_VERSION' });
  const refused = zk.multi([
    { type: 'check', path: '/n', version: 0 },
    { type: 'check', path: '/n', version: 1 },
  ]);
  expect(await rejection(refused)).toMatchObject({ reason: 'BAD_VERSION', failedIndex: 1 });
});

test('reads behind a quorum on each kind of session, also for a request, and writes only while that is there', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  await control.create('/n', Buffer.from('1'));
  const lease = await LeaseSession.open(control.view, { timeoutMs: 4_000, affinity: 0, deadline: within() });
  const requester = { gone: false };
  const transactions = (): number => control.observer.requests.filter((name) => name === 'quorum').length;
  for (const client of [control, control.writingFor(requester), lease, lease.writingFor(requester)]) {
    const before = transactions();
    const zk = client.until(within());
    expect(String((await zk.fresh(() => zk.find('/n')))?.data)).toBe('1');
    expect(transactions()).toBe(before + 1);
  }
  requester.gone = true;
  for (const client of [control, lease]) {
    const zk = client.writingFor(requester).until(within());
    expect(await rejection(zk.set('/n', Buffer.from('2')))).toMatchObject({ name: 'ClientGoneError' });
    expect(await zk.find('/n')).toMatchObject({ stat: { version: 0 } });
  }
  await lease.close();
});

test('everything ends by the one deadline, as the client would', { timeout: scaled(60_000) }, async () => {
  await using server = await startZooKeeper();
  await using control = await TestControl.open(server.connectString);
  await control.create('/n');
  const past = control.until(performance.now());
  expect(past.deadline).toBeLessThanOrEqual(performance.now());
  expect(await rejection(past.set('/n', Buffer.from('1')))).toMatchObject(NOTHING_SENT);
  server.pause();
  const zk = control.until(within(200));
  const reads = [zk.get('/n'), zk.find('/n'), zk.exists('/n'), zk.list('/n'), zk.children('/n'), zk.ephemerals('/')];
  const others = [zk.sync('/'), zk.multiRead([{ type: 'getData', path: '/n' }]), zk.fresh(() => Promise.resolve())];
  for (const error of await Promise.all([...reads, ...others].map(rejection)))
    expect(error).toMatchObject(NOTHING_SENT);
  const later = control.until(within(200));
  const writes = [
    later.create('/new'),
    later.ensure('/new'),
    later.set('/n', Buffer.from('1')),
    later.remove('/n'),
    later.multi([{ type: 'create', path: '/newer' }]),
  ];
  for (const error of await Promise.all(writes.map(rejection))) expect(error).toMatchObject(OUTCOME_UNKNOWN);
  server.resume();
});
