/** With credentials towards ZooKeeper every znode is theirs alone, whichever recipe made it. */
import { createHash, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { unless } from '../../src/zookeeper/errors.js';
import { startPair } from '../support/start-gateway.js';
import { sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { liveADay } from '../support/whole-day.js';
import { getAcl } from '../support/zookeeper/instruments.js';
import { TestControl } from '../support/zookeeper/sessions.js';

const ALL_PERMISSIONS = 31;

/** The access lists of all nodes of the tree, by path; nodes that go meanwhile are left out. */
async function readAcls(control: TestControl, path: string, seen: Map<string, string>): Promise<void> {
  const node = await unless(control.submit(getAcl(path)), 'NO_NODE');
  if (node === undefined) return;
  seen.set(path, node.acl.map(({ permission, id }) => `${id.scheme}:${id.id}:${permission}`).join(' '));
  const listing = await unless(control.getChildren(path), 'NO_NODE');
  await Promise.all((listing?.children ?? []).map((name) => readAcls(control, `${path}/${name}`, seen)));
}

/** Two replicas live a day while the tree is walked over and over, and hold one of everything at its end. */
async function aclsOf(secret: string): Promise<Map<string, string>> {
  await using pair = await startPair({ settings: { POSTERN_ZOOKEEPER_AUTH: secret } });
  const { a, b, root } = pair;
  const credentials = [{ scheme: 'digest', auth: Buffer.from(secret) }];
  await using control = await TestControl.open(sharedZooKeeper(), {}, { credentials });
  const seen = new Map<string, string>();
  let over = false;
  const day = liveADay([a, b], {}, { message: 'message', value: 'value', data: 'data' }).finally(() => (over = true));
  while (!over) await readAcls(control, root, seen);
  await day;
  const lease = await a.createLease({ ttlMs: 30_000 });
  const hold = (path: string, body: unknown): Promise<unknown> =>
    b.expect([200, 201, 202], 'POST', path, { body, leaseToken: lease.leaseToken });
  await hold('/v1/locks/kept/acquire', { lockDelayMs: 10_000 });
  await hold('/v1/rwlocks/kept/acquire', { mode: 'read' });
  await hold('/v1/semaphores/kept/acquire', { limit: 2 });
  await hold('/v1/elections/kept/campaign', {});
  await hold('/v1/double-barriers/kept/enter', { size: 2 });
  await b.expect([200, 201], 'PUT', '/v1/groups/kept/members/m', { body: {}, leaseToken: lease.leaseToken });
  await b.expect(200, 'GET', '/v1/groups/kept/shares?of=3');
  await b.expect([200, 201], 'PUT', '/v1/barriers/kept');
  await b.expect(201, 'PUT', '/v1/queues/kept', { body: { order: 'priority' } });
  await hold('/v1/queues/kept/messages', {
    messages: [
      { body: 1, messageId: 'm' },
      { body: 2, priority: 3 },
      { body: 3, delayMs: 60_000 },
    ],
  });
  await hold('/v1/queues/kept/claim', { claimMs: 30_000 });
  await hold('/v1/transactions', { participants: ['p'], deadlineMs: 60_000 });
  await readAcls(control, root, seen);
  await a.endLease(lease);
  return seen;
}

/** What stands below the namespace. */
function kindsOf(seen: ReadonlyMap<string, string>): Set<string> {
  return new Set([...seen.keys()].map((path) => path.split('/ns/default/')[1]?.split('/')[0] ?? ''));
}

test('every znode is created for the credentials alone', { timeout: scaled(180_000) }, async () => {
  const password = randomBytes(12).toString('hex');
  const seen = await aclsOf(`postern:${password}`);
  const digest = createHash('sha1').update(`postern:${password}`).digest('base64');
  const own = `digest:postern:${digest}:${ALL_PERMISSIONS}`;
  expect([...seen].filter(([, acl]) => acl !== own)).toEqual([]);
  for (const kind of [
    'leases',
    'locks',
    'rwlocks',
    'semaphores',
    'elections',
    'groups',
    'barriers',
    'double-barriers',
    'config',
    'transactions',
    'queues',
    'counters',
    'lock-delays',
  ])
    expect(kindsOf(seen), kind).toContain(kind);
  expect(seen.size).toBeGreaterThan(100);
});

test('without credentials they are open to whoever reaches the ensemble: that is what the walk would find', async () => {
  await using pair = await startPair();
  const seen = new Map<string, string>();
  await using control = await TestControl.open(sharedZooKeeper());
  await readAcls(control, pair.root, seen);
  expect(new Set(seen.values())).toEqual(new Set([`world:anyone:${ALL_PERMISSIONS}`]));
});
