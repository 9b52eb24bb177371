/**
 * `GET /v1/contention?scope=all`: what all replicas tell together, what it costs when nobody asks, and which of them
 * are said not to have answered.
 */
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { ANSWERED_WITHIN_MS } from '../../../../src/recipes/contention/asker.js';
import { eventually } from '../../../support/eventually.js';
import type { Client } from '../../../support/http/client.js';
import { startCuttable } from '../../../support/scene.js';
import { spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';

interface Told {
  replicas: { asked: number; answered: number; silent: string[] };
  complete: boolean;
  items: { kind: string; name: string; waiting: number; oldestWaitMs: number; waits: number; longestWaitMs: number }[];
}

async function askAll(client: Client, namespace = 'default'): Promise<Told> {
  const headers = { Namespace: namespace };
  return (await client.call('GET', '/v1/contention?scope=all', { headers })).body;
}

/** The question's number, and how often each process has written its node. */
async function writesOf({ gateway }: Replica): Promise<{ question: number; answers: number[] }> {
  const { control, layout } = gateway.context;
  const question = (await control.exists(layout.replicas))?.version ?? -1;
  const { children } = await control.getChildren(layout.replicas);
  const stats = await Promise.all(children.sort().map((name) => control.exists(`${layout.replicas}/${name}`)));
  return { question, answers: stats.map((stat) => stat?.version ?? -1) };
}

const nameOf = (replica: Client): string => `${hostname()}:${new URL(replica.url).port}`;

test('sums the waits of all replicas, whichever is asked, and takes the longest of the longest', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const holder = await a.createLease();
  await a.hold('busy', holder);
  await a.hold('elsewhere', holder);
  const first = await a.createLease();
  const waits = [a.acquire('busy', first, { waitMs: 20_000 })];
  await a.untilWaiting('busy', 1);
  for (const [replica, name] of [
    [a, 'busy'],
    [b, 'busy'],
    [b, 'elsewhere'],
  ] as const) {
    const lease = await replica.createLease();
    waits.push(replica.acquire(name, lease, { waitMs: 20_000 }).finally(() => replica.endLease(lease)));
  }
  for (const replica of [a, b]) {
    const told = await eventually('all four wait', async () => {
      const now = await askAll(replica);
      return now.items.reduce((sum, { waiting }) => sum + waiting, 0) === 4 && now;
    });
    expect(told).toMatchObject({ replicas: { asked: 2, answered: 2, silent: [] }, complete: true });
    expect(told.items.map(({ kind, name, waiting }) => `${kind} ${name} ${waiting}`)).toEqual([
      'lock busy 3',
      'lock elsewhere 1',
    ]);
  }
  const [{ oldestWaitMs: here } = { oldestWaitMs: 0 }] = (await a.call('GET', '/v1/contention')).body
    .items as Told['items'];
  expect(here).toBeGreaterThan(0);
  expect((await askAll(a, 'other')).items).toEqual([]);
  await a.endLease(holder);
  await waits[0];
  await a.endLease(first);
  await Promise.all(waits);
  await eventually('the waits are over, and remembered', async () => {
    const { items } = await askAll(b);
    return items.some(({ name, waiting, waits: over }) => name === 'busy' && waiting === 0 && over === 3);
  });
});

test('is written for by nobody while nobody asks, and once for all who ask at once', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const before = await writesOf(a);
  expect(before.answers).toHaveLength(2);
  const [holder, waiter] = [await a.createLease(), await b.createLease()];
  await a.hold('busy', holder);
  const waited = b.acquire('busy', waiter, { waitMs: 20_000 });
  await a.untilWaiting('busy', 1);
  await a.endLease(holder);
  expect((await waited).status).toBe(200);
  await a.expect(200, 'GET', '/v1/contention');
  expect(await writesOf(a)).toEqual(before);
  const startedAt = performance.now();
  const told = await Promise.all(Array.from({ length: 40 }, (_, i) => askAll(i % 2 === 0 ? a : b)));
  const seconds = Math.floor((performance.now() - startedAt) / 1_000);
  for (const { replicas } of told) expect(replicas.asked).toBe(2);
  const after = await writesOf(a);
  expect(after.question).toBeGreaterThan(before.question);
  expect(after.question - before.question).toBeLessThanOrEqual(1 + seconds);
  for (const [i, answers] of after.answers.entries())
    expect(answers - (before.answers[i] as number)).toBeLessThanOrEqual(1 + seconds);
});

test('names a replica that stands still, and one whose connection to ZooKeeper is cut off, in time', async () => {
  const root = freshRoot();
  await using asked = await startReplica({ root });
  await using hung = await spawnReplica({ root });
  await using cuttable = await startCuttable({ root });
  await eventually('all are there', async () => (await askAll(asked)).replicas.answered === 3);
  hung.pause();
  const startedAt = performance.now();
  const one = await eventually('one is silent', async () => {
    const told = await askAll(asked);
    return told.replicas.silent.length > 0 && told;
  });
  // The question before may be a second old.
  expect(performance.now() - startedAt).toBeLessThan(scaled(3 * ANSWERED_WITHIN_MS));
  expect(one).toMatchObject({ complete: false, replicas: { asked: 3, answered: 2, silent: [nameOf(hung)] } });
  hung.resume();
  await eventually('it answers again', async () => (await askAll(asked)).replicas.answered === 3);
  cuttable.proxy.suspend();
  const other = await eventually('the other one is silent', async () => {
    const told = await askAll(asked);
    return told.replicas.silent.length > 0 && told;
  });
  expect(other).toMatchObject({ complete: false, replicas: { asked: 3, answered: 2 } });
  cuttable.proxy.heal();
  await eventually('all answer', async () => (await askAll(asked)).complete);
});

test(
  'does not ask a replica that has stopped, and asks one whose session was replaced once',
  async () => {
    const root = freshRoot();
    await using asked = await startReplica({ root });
    await using cuttable = await startCuttable({ root });
    const stopped = await spawnReplica({ root });
    await eventually('all are there', async () => (await askAll(asked)).replicas.answered === 3);
    await stopped.kill('SIGTERM');
    await stopped[Symbol.asyncDispose]();
    expect(await eventually('it is gone', async () => (await askAll(asked)).replicas.asked === 2)).toBe(true);
    const { control } = cuttable.replica.gateway.context;
    const before = control.sessionId;
    cuttable.proxy.suspend();
    await eventually('its session has ended', async () => (await askAll(asked)).replicas.asked === 1, {
      withinMs: scaled(30_000),
    });
    cuttable.proxy.heal();
    cuttable.proxy.cut();
    await eventually('it is back with another one', () => control.connected && control.sessionId !== before);
    await eventually('it answers', async () => {
      const { replicas } = await askAll(asked);
      return replicas.asked === 2 && replicas.answered === 2;
    });
  },
  scaled(90_000),
);

test('takes a node that it cannot read for a replica that did not answer', async () => {
  await using replica = await startReplica();
  const { control, layout } = replica.gateway.context;
  await control.create(`${layout.replicas}/of-a-later-release`, Buffer.from('{"form":2}'), { mode: 'ephemeral' });
  expect(await askAll(replica)).toMatchObject({
    replicas: { asked: 2, answered: 1, silent: ['of-a-later-release'] },
    complete: false,
  });
});
