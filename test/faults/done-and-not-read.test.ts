/** What was written, and could not be read afterwards, is not reported as not done. */
import { expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING } from '../../src/recipes/housekeeping/housekeeping.js';
import { HOUR } from '../../src/time.js';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { begin, leaseFor, show, told, vote } from '../recipes/transaction/client.js';
import type { CallOptions } from '../support/http/client.js';
import { onSessions } from '../support/lease-work.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import type { TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { beforeWrite, startCuttable } from '../support/scene.js';
import { scaled } from '../support/timing.js';

const OPTIONS = { housekeeping: { ...HOUSEKEEPING_TIMING, everyMs: HOUR } };
const SETTINGS = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_500)) };
const READS = [OPCODE.exists, OPCODE.getData, OPCODE.getChildren, OPCODE.sync, OPCODE.multiRead];
const UNKNOWN = { status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } };

async function startScene() {
  const root = freshRoot();
  const cuttable = await startCuttable({ ...OPTIONS, root, settings: SETTINGS });
  const b = await startReplica({ ...OPTIONS, root });
  return {
    a: cuttable.replica,
    proxy: cuttable.proxy,
    b,
    async [Symbol.asyncDispose]() {
      await b[Symbol.asyncDispose]();
      await cuttable[Symbol.asyncDispose]();
    },
  };
}

/** Nothing reaches ZooKeeper any more from the first reading on that comes after the next write. */
function nothingReadAfterWriting(a: Replica, proxy: TcpProxy): void {
  beforeWrite(a, () => {
    void proxy.loseRequest(...READS).then(() => proxy.refuse());
  });
}

const CHANGES: Record<string, { path: string; body: (n: number) => CallOptions['body']; then: unknown }> = {
  'the limit of a semaphore': { path: '/v1/semaphores/seats', body: (limit) => ({ limit }), then: { limit: 2 } },
  'the configuration of a queue': {
    path: '/v1/queues/work',
    body: (maxDepth) => ({ order: 'fifo', maxDepth }),
    then: { config: { maxDepth: 2 } },
  },
};

test.each(Object.entries(CHANGES))('%s was written, and cannot be shown', async (_, { path, body, then }) => {
  await using scene = await startScene();
  const { a, b, proxy } = scene;
  await a.expect([200, 201], 'PUT', path, { body: body(1) });
  nothingReadAfterWriting(a, proxy);
  expect(await a.call('PUT', path, { body: body(2) })).toMatchObject(UNKNOWN);
  expect(await b.expect(200, 'GET', path)).toMatchObject(then as object);
});

test('a transaction was begun, and cannot be shown', async () => {
  await using scene = await startScene();
  const { a, b, proxy } = scene;
  await begin(a, ['p']);
  nothingReadAfterWriting(a, proxy);
  const body = { participants: ['p'], deadlineMs: 60_000 };
  expect(await a.call('POST', '/v1/transactions', { body })).toMatchObject(UNKNOWN);
  const { items } = (await b.expect(200, 'GET', '/v1/transactions')) as { items: unknown[] };
  expect(items).toHaveLength(2);
});

/**
 * Lets `decided` happen between the vote of a lease at `a` and the reading behind it, and cuts `a` off when that is
 * read.
 */
function decidedBehindTheVote({ a, proxy }: { a: Replica; proxy: TcpProxy }, decided: () => Promise<unknown>): void {
  onSessions(a, (session) => {
    const multi = session.multi.bind(session);
    const exists = session.exists.bind(session);
    session.multi = (operations, until) => {
      const voting = multi(operations, until);
      session.exists = async (path, by) => {
        await voting;
        await decided();
        const stat = await exists(path, by);
        proxy.refuse();
        proxy.cut();
        return stat;
      };
      return voting;
    };
  });
}

test('the last vote is written, another replica decides, and that cannot be read: it has voted', async () => {
  await using scene = await startScene();
  const { a, b, proxy } = scene;
  const [one, other] = [await leaseFor(b), await leaseFor(b)];
  const id = await begin(b, ['a', 'b']);
  await vote(b, id, one, 'a');
  decidedBehindTheVote(scene, () => show(b, id));
  expect(await vote(a, id, other, 'b')).toMatchObject(UNKNOWN);
  expect((await show(b, id)).state).toBe('committed');
  proxy.heal();
  expect(told(await vote(b, id, other, 'b')).state).toBe('committed');
});
