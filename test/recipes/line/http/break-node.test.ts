/** Nodes in a line that do not go by themselves, and administrators who remove them (protocol C59). */
import { describe, expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { eventually } from '../../../support/eventually.js';
import type { Client, Reply } from '../../../support/http/client.js';
import { beforeMulti, startCuttable, Witness } from '../../../support/scene.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { extendBy, LONG_MS, reserved } from '../../reservation/client.js';

interface Node {
  node: string;
  version: number;
  ephemeral: boolean;
  external: boolean;
  breakable: boolean;
  leaseId: string | null;
}

const NAME = 'deploy';

async function nodesOf(replica: Client, path = `locks/${NAME}`): Promise<Node[]> {
  const { items } = (await replica.expect(200, 'GET', `/v1/${path}/nodes`)) as { items: Node[] };
  return items;
}

function breakNode(
  replica: Client,
  { node, version }: Pick<Node, 'node' | 'version'>,
  path = `locks/${NAME}`,
): Promise<Reply> {
  return replica.call('POST', `/v1/${path}/break`, { body: { node, version, reason: 'left over' } });
}

/** As some programs leave one: it belongs to no session. */
async function leave(
  witness: Witness,
  kind: 'lock' | 'rwlock' | 'semaphore' | 'election',
  node: string,
): Promise<void> {
  const directory = witness.layout.line(kind, 'default', NAME);
  await witness.control.ensurePath(directory);
  await witness.control.create(`${directory}/${node}`, Buffer.from('10.0.0.1'), { mode: 'persistent-sequential' });
}

test('a persistent node that a program has left blocks a lock until it is broken, and then the next is granted', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  await leave(witness, 'lock', 'x-deployer-lock-');
  const lease = await pair.a.createLease();
  const waiting = pair.a.hold(NAME, lease, { waitMs: 20_000 });
  await pair.b.untilWaiting(NAME, 1);
  const revoked = await pair.b.call('POST', `/v1/locks/${NAME}/revoke`, { body: { graceMs: 0 } });
  expect(revoked).toMatchObject({ status: 409, body: { code: 'conflict', retryable: false } });
  expect(revoked.body.detail).toContain('break it');
  const [left, mine] = await nodesOf(pair.b);
  expect(left).toMatchObject({ ephemeral: false, external: true, breakable: true, leaseId: null, version: 0 });
  expect(mine).toMatchObject({ ephemeral: true, external: false, breakable: false, leaseId: lease.leaseId });
  expect((await breakNode(pair.b, left as Node)).status).toBe(204);
  await waiting;
  expect((await breakNode(pair.b, left as Node)).body).toMatchObject({ code: 'not-found' });
});

test.each([
  ['rwlock', 'rwlocks', 'x-__WRIT__'],
  ['semaphore', 'semaphores', 'x-permit1-'],
  ['election', 'elections', 'x-latch-'],
] as const)('so does one in the line of a %s', async (kind, path, node) => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  await leave(witness, kind, node);
  const [left] = await nodesOf(pair.a, `${path}/${NAME}`);
  expect((await breakNode(pair.b, left as Node, `${path}/${NAME}`)).status).toBe(204);
  expect(await nodesOf(pair.b, `${path}/${NAME}`)).toEqual([]);
});

test('the node of another program that lives is broken too', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  await witness.standIn(NAME);
  const [stranger] = await nodesOf(pair.a);
  expect(stranger).toMatchObject({ ephemeral: true, external: true, breakable: true });
  expect((await breakNode(pair.a, stranger as Node)).status).toBe(204);
  expect(await witness.line(NAME)).toEqual([]);
});

test('a reservation is broken with its record', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const held = await reserved(pair.a, NAME, { reason: 'lunch' });
  const [node] = await nodesOf(pair.b);
  expect(node).toMatchObject({ ephemeral: false, external: false, breakable: true, reservation: { owner: 'ann' } });
  expect((await breakNode(pair.b, node as Node)).status).toBe(204);
  expect(await witness.control.getChildren(witness.layout.reservationsOf('default'))).toMatchObject({ children: [] });
  expect((await extendBy(pair.a, NAME, held, LONG_MS)).body).toMatchObject({ code: 'not-holder' });
});

describe('nothing is done', () => {
  test('to a node at another version than the one that was seen', async () => {
    await using pair = await startPair();
    const held = await reserved(pair.a, NAME);
    const [seen] = await nodesOf(pair.b);
    await extendBy(pair.a, NAME, held, 2 * LONG_MS);
    const refused = await breakNode(pair.b, seen as Node);
    expect(refused).toMatchObject({
      status: 412,
      body: { code: 'version-mismatch', version: (seen?.version ?? 0) + 1 },
    });
    expect((await nodesOf(pair.b)).length).toBe(1);
  });

  test('to what belongs to a lease, whatever it is', async () => {
    await using pair = await startPair();
    await pair.a.hold(NAME, await pair.a.createLease());
    const [mine] = await nodesOf(pair.b);
    const refused = await breakNode(pair.b, mine as Node);
    expect(refused).toMatchObject({ status: 409, body: { code: 'conflict', retryable: false } });
    expect((await pair.b.showLock(NAME)).holderCount).toBe(1);
  });

  test('for a name that is no node in line', async () => {
    await using pair = await startPair();
    for (const node of ['nobody-lock-0000000001', 'no-number', '..'])
      expect((await breakNode(pair.a, { node, version: 0 })).body).toMatchObject({ code: 'not-found' });
    for (const node of ['a/b', '', 'x'.repeat(513)])
      expect((await breakNode(pair.a, { node, version: 0 })).body).toMatchObject({ code: 'invalid', field: 'node' });
  });
});

test('a lost answer to a break is a break', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  await leave(witness, 'lock', 'x-lock-');
  const [left] = await nodesOf(b);
  let lost: Promise<void> | undefined;
  beforeMulti(
    cuttable.replica,
    () => void (lost = cuttable.proxy.loseReply(OPCODE.multi)),
    (operations) => operations.some(({ type }) => type === 'delete'),
  );
  expect((await breakNode(cuttable.replica, left as Node)).status).toBe(204);
  await lost;
  await eventually('nobody stands there', async () => (await witness.line(NAME)).length === 0);
});
