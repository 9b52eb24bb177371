/** A candidate that makes way while its request stands at a replica that does not hear of it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { decodeRecord, encodeRecord } from '../../../../src/recipes/line/contender.js';
import { OPCODE, type MultiOperation } from '../../../../src/zookeeper/operations.js';
import { eventually, throughout } from '../../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { beforeMulti, startCuttable, type Cuttable } from '../../../support/scene.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { campaign, electionOf, leaseFor, speak, transfer } from '../client.js';
import { nodesOf } from '../nodes.js';

/** A third of it is how soon a request finds out by itself that its place has gone. */
const TTL_MS = scaled(6_000);
const LONG_MS = 120_000;
const WAITS = { waitMs: 50_000 };

interface Stood {
  candidateId: string;
  fencingToken: number;
}

const root = freshRoot();
let cuttable: Cuttable;
let a: Replica;
let b: Replica;
beforeAll(async () => {
  [cuttable, b] = await Promise.all([startCuttable({ root }), startReplica({ root })]);
  a = cuttable.replica;
});
afterAll(() => Promise.all([cuttable[Symbol.asyncDispose](), b[Symbol.asyncDispose]()]));

async function untilStanding(name: string, count: number): Promise<void> {
  await eventually(`${count} stand`, async () => (await electionOf(b, name)).candidateCount === count);
}

async function untilWaiting(replica: Replica, name: string, count: number): Promise<void> {
  const { lines, layout } = replica.gateway.context;
  const path = layout.line('election', 'default', name);
  await eventually(`${count} wait`, () => lines.peek(path)?.waiters.size === count);
}

async function stand(lease: LeaseHandle, name: string, body: Record<string, unknown> = {}): Promise<Stood> {
  return (await campaign(b, name, lease, body)).body as Stood;
}

/** Makes the one who waits between make way for the candidate of this lease. */
const MAKES_WAY = {
  preference: (heir: LeaseHandle, name: string) => campaign(b, name, heir, { preference: 5 }),
  transfer: async (heir: LeaseHandle, name: string) => {
    const { candidateId } = await stand(heir, name);
    return transfer(b, name, { candidateId, graceMs: LONG_MS });
  },
};

test.each(['preference', 'transfer'] as const)(
  'leaves the place to the request that was repeated elsewhere meanwhile: %s (C96)',
  async (how) => {
    const [leader, heir] = [await leaseFor(b, { ttlMs: LONG_MS }), await leaseFor(b, { ttlMs: LONG_MS })];
    const candidate = await leaseFor(b, { ttlMs: TTL_MS });
    await stand(leader, how);
    const stale = campaign(a, how, candidate, WAITS);
    await untilWaiting(a, how, 1);
    cuttable.proxy.suspend();
    expect((await MAKES_WAY[how](heir, how)).status).toBeLessThan(300);
    let repeated: Reply | undefined;
    const repeating = campaign(b, how, candidate, WAITS).then((reply) => (repeated = reply));
    await untilStanding(how, 3);
    await untilWaiting(b, how, 1);
    const [, , place] = await nodesOf({ a: b }, how);
    cuttable.proxy.resume();
    expect(await stale).toMatchObject({ status: 409, body: { code: 'conflict' } });
    expect(await nodesOf({ a: b }, how)).toMatchObject([{}, {}, place ?? {}]);
    await throughout('the repeated request waits', () => repeated === undefined);
    await speak(b, how, 'resign', leader);
    await speak(b, how, 'resign', heir);
    expect(await repeating).toMatchObject({ status: 200 });
    expect((await electionOf(b, how)).leader).toMatchObject({ candidateId: (repeated?.body as Stood).candidateId });
    await speak(b, how, 'resign', candidate);
    expect(await nodesOf({ a: b }, how)).toEqual([]);
  },
  scaled(90_000),
);

test('a pass whose reply is lost tells those who wait in its replica at once (C96)', async () => {
  const leases = await Promise.all([1, 2, 3].map(() => leaseFor(a, { ttlMs: LONG_MS })));
  const [leader, passed, preferred] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
  await stand(leader, 'unheard');
  const waiting = campaign(a, 'unheard', passed, WAITS);
  await untilWaiting(a, 'unheard', 1);
  // Stands behind it as one that was cut off before it passed.
  const { candidateId } = (await campaign(a, 'unheard', preferred)).body as Stood;
  const { path } = (await nodesOf({ a: b }, 'unheard')).at(-1) as { path: string };
  const { data, stat } = await b.gateway.context.control.getData(path);
  const record = { ...decodeRecord(data), candidate: { acknowledged: false, preference: 5 } };
  await b.gateway.context.control.setData(path, encodeRecord(record as never), stat.version);
  let lost: Promise<void> | undefined;
  const isPass = ([mine, before]: readonly MultiOperation[]): boolean =>
    mine?.type === 'check' && before?.type === 'check';
  beforeMulti(a, () => void (lost = cuttable.proxy.loseReply(OPCODE.multi)), isPass);
  const next = campaign(a, 'unheard', preferred, WAITS);
  await eventually('the pass is sent', () => lost !== undefined);
  await lost;
  await eventually('the one that was passed stands behind', async () => {
    const { candidates, candidateCount } = await electionOf(b, 'unheard');
    return candidateCount === 3 && candidates[1]?.candidateId === candidateId;
  });
  await speak(b, 'unheard', 'resign', leader);
  const { fencingToken } = (await next).body as Stood;
  await speak(b, 'unheard', 'resign', preferred);
  expect(((await waiting).body as Stood).fencingToken).toBeGreaterThan(fencingToken);
});
