/** Additions whose answers are lost: each counts once, and nobody is told what is not so. */
import { expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import type { Client, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { rounds, seededRandom, startCuttable } from '../../../support/scene.js';

function add(client: Client, by: number, requestId?: string): Promise<Reply> {
  return client.call('POST', '/v1/counters/c/add', { body: { by, ...(requestId !== undefined && { requestId }) } });
}

async function valueOf(client: Client): Promise<number> {
  return ((await client.expect(200, 'GET', '/v1/counters/c')) as { value: number }).value;
}

test('an addition whose answer ZooKeeper gave and nobody got counts once, with a requestId and without (C34)', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  await add(replica, 1);
  let value = 1;
  for (const requestId of [undefined, 'r1', undefined, 'r2']) {
    for (const fault of ['loseReply', 'loseRequest'] as const) {
      const lost = proxy[fault](OPCODE.multi);
      const reply = await add(replica, 1, requestId && `${requestId}-${fault}`);
      await lost;
      value += 1;
      expect(reply, fault).toMatchObject({ status: 200, body: { value } });
    }
  }
  expect(await valueOf(replica)).toBe(value);
});

test('a whole batch whose answer was lost counts once, and each is told its own value (C34)', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  await add(replica, 1);
  const lost = proxy.loseReply(OPCODE.multi);
  const replies = await Promise.all(Array.from({ length: 40 }, (_, i) => add(replica, 1, i % 3 ? undefined : `r${i}`)));
  await lost;
  expect(replies.map(({ body }) => (body as { value: number }).value).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 40 }, (_, i) => i + 2),
  );
  expect(await valueOf(replica)).toBe(41);
});

test('an addition of unknown outcome is found by its requestId when it is repeated elsewhere (C34)', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_500)) } });
  const { replica: a, proxy } = cuttable;
  await add(b, 10);
  // The directory of its mark is there: what is lost is the answer to the transaction that happens.
  const { control, layout } = b.gateway.context;
  const buckets = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));
  await control.ensurePath(layout.counterMarks('default'));
  await Promise.all(buckets.map((bucket) => control.ensurePath(`${layout.counterMarks('default')}/${bucket}`)));
  const cut = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
  const unknown = await add(a, 5, 'mine');
  await cut;
  expect(unknown).toMatchObject({
    status: 503,
    body: { code: 'outcome-unknown', outcome: 'unknown', retryable: true },
  });
  await add(b, 100);
  expect((await add(b, 5, 'mine')).body).toEqual({ name: 'c', value: 15 });
  // Nothing was sent: it says so, and by then it is true.
  const refused = await add(a, 7, 'later');
  expect(refused).toMatchObject({ status: 503, body: { code: 'zookeeper-unavailable', outcome: 'not-applied' } });
  proxy.accept();
  await eventually('it is connected', () => a.gateway.context.control.connected);
  expect((await add(a, 5, 'mine')).body).toEqual({ name: 'c', value: 15 });
  expect(await valueOf(a)).toBe(115);
});

test(
  'additions that are repeated until they are answered, while connections are cut, each count once',
  { timeout: scaled(120_000) },
  async () => {
    const root = freshRoot();
    const random = seededRandom('counters');
    await using b = await startReplica({ root });
    await using cuttable = await startCuttable({ root });
    const { replica: a, proxy } = cuttable;
    const count = rounds(150);
    const told = new Map<number, string>();
    /**
     * After an answer, as chance will have it: so the faults are as many as there is progress. One answer is lost at a
     * time.
     */
    let ambush: Promise<void> | undefined;
    const disturb = (): void => {
      if (random() < 0.05) proxy.cut();
      if (random() < 0.2) ambush ??= proxy.loseReply(OPCODE.multi).then(() => void (ambush = undefined));
    };
    const adding = Array.from({ length: 10 }, async (_, worker) => {
      for (let i = 0; i < count / 10; i += 1) {
        const requestId = `w${worker}-${i}`;
        for (;;) {
          const reply = await add(random() < 0.6 ? a : b, 1, requestId);
          if (reply.status === 503) continue;
          expect(reply.status).toBe(200);
          const { value } = reply.body as { value: number };
          expect(told.get(value), `${requestId} was told the value of another`).toBeUndefined();
          told.set(value, requestId);
          disturb();
          break;
        }
      }
    });
    await Promise.all(adding);
    proxy.heal();
    expect(await valueOf(b)).toBe(count);
    expect([...told.keys()].sort((x, y) => x - y)).toEqual(Array.from({ length: count }, (_, i) => i + 1));
  },
);
