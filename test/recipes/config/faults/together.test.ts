/**
 * Keys that are written together are read together (C45), whichever server of the ensemble is asked, however far that
 * is behind, and whatever happens between the look at their sizes and the reading.
 */
import { expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import type { Client } from '../../../support/http/client.js';
import { startCuttable } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, startEnsemble, type ZooKeeperNode } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { put, readTogether, write } from '../client.js';

interface Item {
  key: string;
  exists?: boolean;
  value?: number;
  bytes?: number;
}

const PAIR = ['pair/left', 'deep/down/pair/right'];
const STEADY = ['steady/a', 'steady/b/c'];
const ROUNDS = 150;
/** Beside some values, so that reading them takes a while and their sizes change. */
const PADDING = 'x'.repeat(40_000);

/** Round by round: another value, and every fourth time none. */
function operationsOf(round: number): object[] {
  const isGone = round % 4 === 3;
  const wasGone = round % 4 === 0;
  return [
    ...PAIR.map((key) => (isGone ? { delete: key } : { put: key, value: round, ifAbsent: wasGone })),
    ...STEADY.map((key) => ({ put: key, value: round })),
    { put: 'steady/padding', value: round % 2 === 0 ? PADDING : '' },
  ];
}

test(
  'nobody sees one of two keys that are written together without the other, or an older one than was acknowledged',
  { timeout: scaled(120_000) },
  async () => {
    await using ensemble = await startEnsemble({ proxiedPeers: true });
    const [behind, other] = (await ensemble.followers()) as [ZooKeeperNode, ZooKeeperNode];
    const leader = await ensemble.leader();
    const root = freshRoot();
    await using writer = await startReplica({ root, zookeeper: leader.connectString });
    await using a = await startReplica({ root, zookeeper: behind.connectString });
    await using b = await startReplica({ root, zookeeper: other.connectString });
    let acknowledged = 0;
    let writing = true;
    const seen = new Set<number | 'absent'>();
    const torn: unknown[] = [];
    const old: unknown[] = [];
    const judge = (items: readonly Item[], floor: number, mayBeOld: boolean): void => {
      const [first, ...others] = items.filter(({ key }) => key !== 'steady/padding');
      if (others.some(({ exists, value }) => exists !== first?.exists || value !== first?.value)) torn.push(items);
      if (!mayBeOld && first?.value !== undefined && first.value < floor) old.push([floor, first.value]);
      seen.add(first?.value ?? 'absent');
    };
    const readOne = async (client: Client): Promise<void> => {
      const floor = acknowledged;
      const { status, body } = await readTogether(client, [...PAIR, 'steady/padding']);
      expect(status).toBe(200);
      judge((body as { items: Item[] }).items, floor, false);
    };
    const listOne = async (client: Client): Promise<void> => {
      const floor = acknowledged;
      const page = await client.expect(200, 'GET', '/v1/config?prefix=steady/&values=true');
      const { items } = page as { items: Item[] };
      expect(items).toHaveLength(3);
      judge(items, floor, false);
    };
    const readAll = async (client: Client, read: (client: Client) => Promise<void>): Promise<void> => {
      do await read(client);
      while (writing);
    };
    expect((await write(writer, operationsOf(0))).status).toBe(200);
    const readers = [a, b].flatMap((client) => [readOne, readOne, listOne].map((read) => readAll(client, read)));
    try {
      for (let round = 1; round <= ROUNDS; round += 1) {
        if (round === ROUNDS / 2) ensemble.lag(behind.id, 50);
        expect((await write(writer, operationsOf(round))).status).toBe(200);
        acknowledged = round;
      }
    } finally {
      writing = false;
      ensemble.lag(behind.id, 0);
      await Promise.allSettled(readers);
    }
    await Promise.all(readers);
    expect(torn).toEqual([]);
    expect(old).toEqual([]);
    expect(seen.has('absent')).toBe(true);
    expect(seen.size).toBeGreaterThan(20);
  },
);

/** Lets `meanwhile` happen once, when the replica has looked at the sizes and is about to read the values. */
function beforeReading(replica: Replica, meanwhile: () => Promise<unknown>): void {
  const { control } = replica.gateway.context;
  const multiRead = control.multiRead.bind(control);
  control.multiRead = async (...reading) => {
    control.multiRead = multiRead;
    await meanwhile();
    return multiRead(...reading);
  };
}

test('values that grow beyond the limit after their sizes were looked at are not answered', async () => {
  await using pair = await startPair();
  const keys = Array.from({ length: 4 }, (_, i) => `growing/${i}`);
  const putAll = async (bytes: number): Promise<void> => {
    for (const key of keys) expect((await put(pair.b, key, Buffer.alloc(bytes))).status).toBeLessThan(300);
  };
  await putAll(10);
  beforeReading(pair.a, () => putAll(30_000));
  const more = await readTogether(pair.a, keys);
  expect((more.body as { items: Item[] }).items.map(({ bytes }) => bytes)).toEqual(Array(4).fill(30_000));
  await putAll(10);
  beforeReading(pair.a, () => putAll(500_000));
  expect(await readTogether(pair.a, keys)).toMatchObject({ status: 413, body: { code: 'too-large' } });
  await putAll(10);
  beforeReading(pair.a, () => putAll(500_000));
  const pages: (number | undefined)[][] = [];
  for (let token = ''; ;) {
    const page = await pair.a.expect(200, 'GET', `/v1/config?prefix=growing/&values=true${token}`);
    const { items, nextPageToken } = page as { items: Item[]; nextPageToken?: string };
    pages.push(items.map(({ bytes }) => bytes));
    if (nextPageToken === undefined) break;
    token = `&pageToken=${nextPageToken}`;
  }
  expect(pages).toEqual([
    [500_000, 500_000],
    [500_000, 500_000],
  ]);
});

test('a reading whose answer is lost with the connection is repeated', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  await write(replica, operationsOf(1));
  const lost = proxy.loseReply(OPCODE.multiRead);
  const reply = await readTogether(replica, PAIR);
  await lost;
  expect(reply.status).toBe(200);
  expect((reply.body as { items: Item[] }).items).toMatchObject([{ value: 1 }, { value: 1 }]);
});
