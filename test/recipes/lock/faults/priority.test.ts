/** Locks by priority, where answers are lost, replicas die, and turns are taken at once (C94). */
import { describe, expect, test } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import { sortLine } from '../../../../src/recipes/line/contender.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { eventually } from '../../../support/eventually.js';
import { seededRandom, startCuttable } from '../../../support/scene.js';
import { spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { atTurn } from './at-turn.js';

const NAME = 'turns';
const WAIT = { waitMs: 50_000 };

/** How many stand in the line, and in the room. */
async function standing({ gateway: { context } }: Replica): Promise<[inLine: number, inRoom: number]> {
  const { control, layout } = context;
  const count = async (path: string): Promise<number> => {
    await control.sync(path);
    return sortLine(await control.until(performance.now() + scaled(10_000)).children(path)).length;
  };
  return [await count(layout.line('lock', 'default', NAME)), await count(layout.line('lock-room', 'default', NAME))];
}

function leaseFor(replica: Replica): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000 });
}

describe('a lost answer', () => {
  test.each(['loseReply', 'loseRequest'] as const)('of ZooKeeper (%s) gives one turn', async (lose) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const lease = await leaseFor(b);
    let lost: Promise<void> | undefined;
    atTurn(a, { before: () => void (lost = proxy[lose](OPCODE.multi)) });
    const got = await a.hold(NAME, lease, { priority: 1 });
    await lost;
    expect(lost).toBeDefined();
    expect(await standing(b)).toEqual([1, 0]);
    expect(await b.hold(NAME, lease, { priority: 1 })).toMatchObject({ holdId: got.holdId, alreadyHeld: true });
    expect((await b.release(NAME, lease)).status).toBe(204);
    expect(await standing(b)).toEqual([0, 0]);
  });

  test(
    'for good is outcome-unknown: the turn is given back, unless the client comes back for it',
    async () => {
      const root = freshRoot();
      const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) };
      await using cuttable = await startCuttable({ root, settings });
      await using b = await startReplica({ root });
      const { replica: a, proxy } = cuttable;
      const lease = await leaseFor(b);
      const cut = async (body: Record<string, unknown>): Promise<void> => {
        let lost: Promise<void> | undefined;
        atTurn(a, { before: () => void (lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse())) });
        const unknown = await a.acquire(NAME, lease, { priority: 1, ...body });
        await lost;
        expect([unknown.status, unknown.body]).toMatchObject([503, { code: 'outcome-unknown' }]);
      };
      await cut({ requestId: 'forgotten' });
      proxy.heal();
      await eventually('nobody stands', async () => (await standing(b)).every((count) => count === 0));
      await cut({ requestId: 'repeated' });
      expect(await b.hold(NAME, lease, { priority: 1, requestId: 'repeated' })).toMatchObject({ alreadyHeld: false });
      proxy.heal();
      await eventually('the other replica has nothing left to do', () => a.gateway.context.cleanup.pending === 0);
      expect(await standing(b)).toEqual([1, 0]);
      await b.release(NAME, lease, { requestId: 'repeated' });

      // One that is kept stands first in the line: nobody asks for it, and it is passed.
      await cut({ requestId: 'kept', keepPlace: true });
      proxy.heal();
      await eventually('it is kept', () => a.gateway.context.cleanup.pending === 0);
      expect(await standing(b)).toEqual([1, 0]);
      const other = await leaseFor(b);
      await b.hold(NAME, other, { ...WAIT, priority: 0 });
      expect(await standing(b)).toEqual([1, 0]);
    },
    scaled(60_000),
  );
});

test('of two turns that are taken at once one is had, and the other request goes on waiting', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, low, high] = [await leaseFor(a), await leaseFor(a), await leaseFor(b)];
  await a.hold(NAME, holder, { priority: 0 });
  const waiting = a.acquire(NAME, low, { ...WAIT, priority: 1 });
  await a.untilWaiting(NAME, 1);
  let granted: { fencingToken: number } | undefined;
  atTurn(a, { before: async () => (granted = await b.hold(NAME, high, { ...WAIT, priority: 10 })) });
  await b.release(NAME, holder);
  await eventually('the other one has it', () => granted !== undefined);
  expect(await standing(b)).toEqual([1, 1]);
  await a.release(NAME, high);
  const { status, body } = await waiting;
  expect(status).toBe(200);
  expect(body.fencingToken).toBeGreaterThan(granted!.fencingToken);
  expect(await standing(b)).toEqual([1, 0]);
});

test('two attempts of one request at once, at two replicas, have one hold', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const lease = await leaseFor(a);
  let second: { holdId: string } | undefined;
  atTurn(a, { before: async () => (second = await b.hold(NAME, lease, { priority: 1 })) });
  const first = await a.acquire(NAME, lease, { priority: 1, waitMs: 1_000 });
  expect([200, 409]).toContain(first.status);
  if (first.status === 200) expect(first.body.holdId).toBe(second!.holdId);
  expect(await standing(b)).toEqual([1, 0]);
});

test(
  'a replica is killed while it has the first of the room: the request goes on elsewhere, or is passed',
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await startReplica({ root });
    const [holder, first, second] = [await leaseFor(b), await leaseFor(b), await leaseFor(b)];
    await b.hold(NAME, holder, { priority: 0 });
    const cut = [
      a.acquire(NAME, first, { priority: 9, waitMs: 2_000 }),
      a.acquire(NAME, second, { priority: 8, waitMs: 20_000 }),
    ];
    for (const each of cut) each.catch(() => undefined);
    await b.untilWaiting(NAME, 2);
    const low = b.acquire(NAME, holder, { ...WAIT, priority: 0, requestId: 'low' });
    await b.untilWaiting(NAME, 3);
    await a.kill();
    const again = b.acquire(NAME, second, { ...WAIT, priority: 8 });
    await b.release(NAME, holder);
    expect((await again).status).toBe(200);
    await b.release(NAME, second);
    expect((await low).status).toBe(200);
    expect(await standing(b)).toEqual([1, 0]);
  },
  scaled(90_000),
);

test(
  'whoever comes and goes meanwhile: one holds at a time, tokens rise, and nothing is left',
  async () => {
    await using pair = await startPair();
    const replicas = [pair.a, pair.b];
    const random = seededRandom('priorities');
    const pick = (below: number): number => Math.floor(random() * below);
    const tokens: number[] = [];
    let holders = 0;
    const run = async (who: number): Promise<void> => {
      let lease = await leaseFor(replicas[who % 2]!);
      for (let turn = 0; turn < 6; turn += 1) {
        const [here, there] = [replicas[pick(2)]!, replicas[pick(2)]!];
        const body = { priority: pick(11), requestId: `t${turn}` };
        const kept = await here.acquire(NAME, lease, { ...body, keepPlace: true });
        expect([200, 202]).toContain(kept.status);
        if (kept.status === 202 && pick(3) === 0) {
          expect((await there.release(NAME, lease, { requestId: body.requestId })).status).toBe(204);
          continue;
        }
        const granted = kept.status === 200 ? kept.body : await there.hold(NAME, lease, { ...body, ...WAIT });
        holders += 1;
        expect(holders).toBe(1);
        tokens.push(granted.fencingToken as number);
        holders -= 1;
        if (pick(3) > 0) {
          expect((await here.release(NAME, lease, { requestId: body.requestId })).status).toBe(204);
          continue;
        }
        await there.endLease(lease);
        lease = await leaseFor(here);
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, who) => run(who)));
    expect(tokens).toEqual(tokens.toSorted((x, y) => x - y));
    expect(tokens.length).toBeGreaterThan(8);
    await eventually('nobody stands', async () => (await standing(pair.a)).every((count) => count === 0));
  },
  scaled(90_000),
);

test('a client that goes away between its turn and its grant leaves nothing in the line', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [gone, other] = [await leaseFor(a), await leaseFor(b)];
  const client = new AbortController();
  let hasGone = false;
  atTurn(a, {
    after: async (requester) => {
      client.abort();
      await eventually('the replica knows', () => requester!.gone);
      hasGone = true;
    },
  });
  const lost = a.acquire(NAME, gone, { ...WAIT, priority: 1 }, { signal: client.signal });
  await expect(lost).rejects.toThrow();
  await b.hold(NAME, other, { priority: 0, waitMs: 20_000 });
  expect(hasGone).toBe(true);
  expect(await standing(b)).toEqual([1, 0]);
});
