/** What everybody may see of a lease, and what nobody may compute from it; and the key that all replicas share. */
import { randomBytes, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { LeaseKeys } from '../../../src/leases/keys.js';
import { Lease } from '../../../src/leases/lease.js';
import { eventually } from '../../support/eventually.js';
import { startPair } from '../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { controlIn, NOTHING_SENT, rejection } from '../../support/zookeeper/sessions.js';
import { Layout } from '../../../src/leases/layout.js';
import { leaseBehind, soon, Witness } from '../../support/scene.js';

test('the names of a lease follow from its secret, not from its session (C9)', () => {
  const [id, password] = [randomBytes(8), randomBytes(16)];
  const grant = {
    sessionId: id,
    sessionPassword: password,
    ttlMs: 1,
    issuedAt: 1,
    namespace: 'n',
    principal: 'p',
    label: '',
  };
  const [one, two] = [
    new Lease({ ...grant, secret: randomBytes(16) }),
    new Lease({ ...grant, secret: randomBytes(16) }),
  ];
  expect(one.leaseId).not.toBe(two.leaseId);
  expect(one.guid('lock', 'x', '')).not.toBe(two.guid('lock', 'x', ''));
});

test('neither an answer nor a name or the data of a node shows the session of a lease (C9)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [me, next] = [
    await pair.a.createLease({ label: 'me', requestId: randomUUID(), metadata: { host: 'h' } }),
    await pair.a.createLease(),
  ];
  const hold = await pair.a.hold('shown', me, { data: { a: 1 } });
  await pair.a.acquire('shown', next, { waitMs: 1, keepPlace: true });
  const { leaseToken: _, ...lease } = me;
  const answers = [
    lease,
    hold,
    await pair.b.showLock('shown'),
    (await pair.b.call('GET', '/v1/locks')).body,
    (await pair.b.call('GET', '/v1/locks/shown/waiters')).body,
    (await pair.b.call('GET', '/v1/leases')).body,
    (await pair.b.showLease(me)).body,
    (await pair.b.acquire('shown', next)).body,
  ];
  const tree = await everything(witness, pair.root);
  const text = JSON.stringify([answers, tree]);
  const { sessionId, sessionPassword, secret } = (await leaseBehind(pair.a, me)).grant;
  for (const hidden of [sessionId, sessionPassword, secret]) {
    for (const encoding of ['hex', 'base64', 'base64url'] as const)
      expect(text).not.toContain(hidden.toString(encoding));
  }
  expect(text).not.toContain(String(sessionId.readBigInt64BE()));
  // Sealed, it may lie in ZooKeeper; it is shown to nobody.
  expect(JSON.stringify(answers)).not.toContain(me.leaseToken);
  expect(tree.length).toBeGreaterThan(8);
});

test('of two replicas that make the shared key at once, one takes the key of the other (T2)', async () => {
  const root = freshRoot();
  await using one = await controlIn(sharedZooKeeper(), root);
  await using two = await controlIn(sharedZooKeeper(), root);
  let missing = 0;
  for (const control of [one, two]) {
    const read = control.getData.bind(control);
    control.getData = async (...args) => {
      control.getData = read;
      const error = await read(...args).then(
        () => undefined,
        (reason: Error) => reason,
      );
      missing += 1;
      await eventually('both have seen that there is no key', () => missing === 2);
      throw error ?? new Error('there was a key already');
    };
  }
  const layout = new Layout('/below');
  const rings = await Promise.all([one, two].map((control) => new LeaseKeys(control, layout, []).ring(soon())));
  const grant = {
    sessionId: randomBytes(8),
    sessionPassword: randomBytes(16),
    secret: randomBytes(16),
    ttlMs: 1,
    issuedAt: 1,
    namespace: 'n',
    principal: 'p',
    label: '',
  };
  expect(rings[1]?.open(rings[0]?.seal(grant) ?? '')).toBeDefined();
});

test('those who ask for the shared key at once share one reading, and none waits longer than it may (T2)', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const keys = new LeaseKeys(control, new Layout('/below'), []);
  const before = control.observer.requests.length;
  const hurried = rejection(keys.ring(performance.now()));
  const rings = await Promise.all(Array.from({ length: 100 }, () => keys.ring(soon())));
  expect(await hurried).toMatchObject(NOTHING_SENT);
  expect(new Set(rings).size).toBe(1);
  expect(control.observer.requests.slice(before).filter((operation) => operation === 'sync')).toHaveLength(1);
});

test('without configured keys a token opens at every replica, also at one that starts later (T2)', async () => {
  const root = freshRoot();
  await using pair = await startPair({ root });
  const me = await pair.a.createLease();
  expect((await pair.b.heartbeat(me)).status).toBe(200);
  await using later = await startPair({ root });
  expect((await later.a.heartbeat(me)).status).toBe(200);
});

/** Every node below `path` with its data. */
async function everything(witness: Witness, path: string): Promise<[string, string][]> {
  const [{ data }, { children }] = await Promise.all([
    witness.control.getData(path),
    witness.control.getChildren(path),
  ]);
  const below = await Promise.all(children.map((child) => everything(witness, `${path}/${child}`)));
  return [[path, data.toString('latin1')], ...below.flat()];
}
