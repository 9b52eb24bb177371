/**
 * Records with a field or a value that this release does not know: requests are told so by name, nothing is written,
 * and housekeeping leaves what belongs to them alone (protocol C47).
 */
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { Sweep } from '../../src/recipes/housekeeping/sweep.js';
import { ifKnown, expectKnown, NewerRecordError } from '../../src/recipes/known-record.js';
import { TidyPools } from '../../src/recipes/pool/tidy.js';
import { TidyQueues } from '../../src/recipes/queue/admin/tidy.js';
import { baseName } from '../../src/zookeeper/paths.js';
import type { Client, LeaseHandle } from '../support/http/client.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { TestControl } from '../support/zookeeper/sessions.js';

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what a newer release writes
type Json = Record<string, any>;
type Call = readonly [method: 'GET' | 'PUT' | 'POST' | 'DELETE', path: string, body?: Json];

const LEASED = /\/(acquire|release|claim|start)$/;
const HOUR_MS = 3_600_000;

interface Kind {
  what: string;
  /** Makes it. */
  made: readonly Call[];
  /** The path of the record, below the namespace or the root; `*` is the only child, also in what is asked and said. */
  record: string;
  /** What a newer release might make of it. */
  changes: readonly { change: (record: Json) => Json; unknown: string }[];
  /** Must be told. */
  asked: readonly Call[];
}

const NEW_FIELD = { change: (record: Json): Json => ({ ...record, shape: 'round' }), unknown: 'field "shape"' };
const RUN = { occurrence: 'monday' };

const KINDS: readonly Kind[] = [
  {
    what: 'the queue "jobs"',
    made: [['POST', '/v1/queues/jobs/messages', { messages: [{ body: 1 }] }]],
    record: 'queues/jobs',
    changes: [NEW_FIELD],
    asked: [
      ['POST', '/v1/queues/jobs/messages', { messages: [{ body: 2 }] }],
      ['POST', '/v1/queues/jobs/pop', {}],
      ['POST', '/v1/queues/jobs/claim', {}],
      ['POST', '/v1/queues/jobs/pause'],
      ['PUT', '/v1/queues/jobs', { order: 'fifo' }],
      ['GET', '/v1/queues/jobs'],
      ['GET', '/v1/queues/jobs/messages'],
      ['GET', '/v1/queues'],
      ['DELETE', '/v1/queues/jobs'],
    ],
  },
  {
    what: 'the configuration of the queue "jobs"',
    made: [['POST', '/v1/queues/jobs/messages', { messages: [{ body: 1 }] }]],
    record: 'queues/jobs',
    changes: [
      { change: (record) => ({ ...record, config: { ...record['config'], order: 'lifo' } }), unknown: 'order "lifo"' },
      {
        change: (record) => ({ ...record, config: NEW_FIELD.change(record['config'] as Json) }),
        unknown: 'field "shape"',
      },
    ],
    asked: [
      ['POST', '/v1/queues/jobs/messages', { messages: [{ body: 2 }] }],
      ['POST', '/v1/queues/jobs/pop', {}],
    ],
  },
  {
    what: 'the pool "slots"',
    made: [
      ['PUT', '/v1/pools/slots', { of: 2 }],
      ['POST', '/v1/pools/slots/acquire', {}],
    ],
    record: 'pools/slots',
    changes: [NEW_FIELD, { change: ({ of: _, ...pool }) => ({ ...pool, ranges: ['0-1'] }), unknown: 'field "ranges"' }],
    asked: [
      ['POST', '/v1/pools/slots/acquire', { count: 1, requestId: 'another' }],
      ['POST', '/v1/pools/slots/release', {}],
      ['PUT', '/v1/pools/slots', { of: 3 }],
      ['GET', '/v1/pools/slots'],
      ['GET', '/v1/pools'],
      ['DELETE', '/v1/pools/slots'],
    ],
  },
  {
    what: 'the schedule "nightly"',
    made: [['PUT', '/v1/schedules/nightly', { cron: '0 3 * * *', to: { queue: 'jobs', body: 1 } }]],
    record: '/schedules/default/nightly',
    changes: [NEW_FIELD, { change: (record) => ({ ...record, misfire: 'all' }), unknown: 'misfire "all"' }],
    asked: [
      ['PUT', '/v1/schedules/nightly', { cron: '0 4 * * *', to: { queue: 'jobs', body: 1 } }],
      ['GET', '/v1/schedules/nightly'],
      ['GET', '/v1/schedules'],
    ],
  },
  {
    what: 'the runs "report"',
    made: [['POST', '/v1/runs/report/start', RUN]],
    record: 'runs/report',
    changes: [
      {
        change: ({ runs }) => ({ runs: (runs as Json[]).map((run) => NEW_FIELD.change(run)) }),
        unknown: 'field "shape"',
      },
      {
        change: ({ runs }) => ({
          runs: (runs as Json[]).map((run) => ({ ...run, end: { outcome: 'skipped', at: 0 } })),
        }),
        unknown: 'outcome "skipped"',
      },
    ],
    asked: [
      ['POST', '/v1/runs/report/start', RUN],
      ['POST', '/v1/runs/report/forget', RUN],
      ['GET', '/v1/runs/report'],
    ],
  },
  {
    what: 'the reservation of "door"',
    made: [['POST', '/v1/locks/door/reserve', { owner: 'me', forMs: HOUR_MS, requestId: 'r'.repeat(22) }]],
    record: '/reservations/default/*',
    changes: [NEW_FIELD],
    asked: [
      ['POST', '/v1/locks/door/reserve', { owner: 'me', forMs: HOUR_MS, requestId: 'r'.repeat(22) }],
      ['GET', '/v1/reservations'],
    ],
  },
  {
    what: 'the transaction "*"',
    made: [['POST', '/v1/transactions', { participants: ['p'], deadlineMs: HOUR_MS }]],
    record: 'transactions/*/*',
    changes: [
      NEW_FIELD,
      { change: (record) => ({ ...record, decision: { state: 'put off' } }), unknown: 'state "put off"' },
    ],
    asked: [
      ['GET', '/v1/transactions/*'],
      ['POST', '/v1/transactions/*/abort', {}],
      ['GET', '/v1/transactions'],
    ],
  },
  {
    what: 'a value of the configuration',
    made: [['PUT', '/v1/config/key', { value: 1 }]],
    record: 'config/key',
    changes: [NEW_FIELD, { change: (header) => ({ ...header, postern: 'sealed' }), unknown: 'postern "sealed"' }],
    asked: [
      ['PUT', '/v1/config/key', { value: 2 }],
      ['GET', '/v1/config/key'],
      ['DELETE', '/v1/config/key'],
    ],
  },
  {
    what: 'the counter "visits"',
    made: [['POST', '/v1/counters/visits/add', { by: 1 }]],
    record: 'counters/visits',
    changes: [NEW_FIELD],
    asked: [
      ['POST', '/v1/counters/visits/add', { by: 1 }],
      ['GET', '/v1/counters/visits'],
      ['GET', '/v1/counters'],
    ],
  },
  {
    what: 'the limit of this semaphore',
    made: [['PUT', '/v1/semaphores/desks', { limit: 2 }]],
    record: 'semaphores/desks',
    changes: [NEW_FIELD],
    asked: [
      ['POST', '/v1/semaphores/desks/acquire', {}],
      ['PUT', '/v1/semaphores/desks', { limit: 3 }],
      ['GET', '/v1/semaphores/desks'],
    ],
  },
];

/** The first line is JSON; a value of the configuration follows it. */
function changed(data: Buffer, change: (record: Json) => Json): Buffer {
  const [first = '', ...rest] = data.toString().split('\n');
  return Buffer.from([JSON.stringify(change(JSON.parse(first) as Json)), ...rest].join('\n'));
}

let control: TestControl;
beforeAll(async () => (control = await TestControl.open(sharedZooKeeper())));
afterAll(() => control[Symbol.asyncDispose]());

async function pathOf(root: string, record: string): Promise<string> {
  const path = record.startsWith('/') ? root + record : `${root}/ns/default/${record}`;
  const [directory = '', ...below] = path.split('/*');
  let found = directory;
  for (const rest of below) found += `/${(await control.getChildren(found)).children[0]}${rest}`;
  return found;
}

function ask(client: Client, { leaseToken }: LeaseHandle, [method, path, body]: Call): ReturnType<Client['call']> {
  const headers = method === 'PUT' && path.startsWith('/v1/config') ? { 'if-match': '*' } : {};
  return client.call(method, path, { headers, ...(body && { body }), ...(LEASED.test(path) && { leaseToken }) });
}

describe.each(KINDS)('$what, written by a newer release', ({ what, made, record, changes, asked }) => {
  it.each(changes)('is refused by name, and not changed: $unknown (C47)', async ({ change, unknown }) => {
    const root = freshRoot();
    const settings = { POSTERN_REQUEST_TIMEOUT_MS: '5000' };
    await using replica = await startReplica({ root, settings });
    const lease = await replica.createLease({ ttlMs: 20_000 });
    for (const [method, path, body] of made) {
      const headers = path.startsWith('/v1/config') ? { 'if-none-match': '*' } : {};
      const given = { headers, ...(body && { body }), ...(LEASED.test(path) && { leaseToken: lease.leaseToken }) };
      await replica.expect([200, 201, 204], method, path, given);
    }
    const path = await pathOf(root, record);
    const before = (await control.getData(path)).data;
    const newer = changed(before, change);
    const named = (text: string): string => text.replace('*', baseName(path));
    await control.setData(path, newer);
    // What the replica watches it has heard of then.
    await replica.gateway.context.control.sync(path);

    for (const call of asked) {
      const [method, asks, body] = call;
      const reply = await ask(replica, lease, body === undefined ? [method, named(asks)] : [method, named(asks), body]);
      expect(reply.body, `${call[0]} ${call[1]}`).toMatchObject({
        status: 503,
        code: 'zookeeper-unavailable',
        outcome: 'not-applied',
        detail: `Another release has written ${named(what)}: this one does not know its ${unknown}. Nothing was done. Ask a replica of the release that wrote it.`,
      });
    }
    expect((await control.getData(path)).data.toString()).toBe(newer.toString());
    await replica.endLease(lease);
  });
});

const sweep = (replica: Replica): Sweep => new Sweep(replica.gateway.context, () => false);

test('housekeeping removes the contents of no queue while it cannot read one (C47)', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root });
  await replica.expect(201, 'POST', '/v1/queues/jobs/messages', { body: { messages: [{ body: 1 }] } });
  const path = `${root}/ns/default/queues/jobs`;
  const before = (await control.getData(path)).data;
  await control.setData(path, changed(before, NEW_FIELD.change));
  // A replica that has not read the queue before.
  await using other = await startReplica({ root });
  const chore = new TidyQueues(other.gateway.context, other.gateway.recipes.queue.queues);
  for (let round = 0; round < 3; round += 1) await chore.sweep(sweep(other));
  await control.setData(path, before);
  expect((await other.expect(200, 'POST', '/v1/queues/jobs/pop', { body: {} })).items).toMatchObject([{ body: 1 }]);
});

test('housekeeping removes the contents of no pool while it cannot read one (C47)', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root });
  const lease = await replica.createLease({ ttlMs: 20_000 });
  await replica.expect(201, 'PUT', '/v1/pools/slots', { body: { of: 2 } });
  await replica.expect(200, 'POST', '/v1/pools/slots/acquire', { body: {}, leaseToken: lease.leaseToken });
  const path = `${root}/ns/default/pools/slots`;
  const before = (await control.getData(path)).data;
  const marks = replica.gateway.context.layout.poolMarks(
    'default',
    (JSON.parse(before.toString()) as Json)['id'] as string,
  );
  const { children } = await control.getChildren(marks);
  await control.setData(
    path,
    changed(before, ({ of: _, ...pool }) => ({ ...pool, ranges: ['0-1'] })),
  );
  await new TidyPools(replica.gateway.context).sweep(sweep(replica));
  expect((await control.getChildren(marks)).children).toEqual(children);
  await control.setData(path, before);
  await replica.expect(204, 'POST', '/v1/pools/slots/release', { body: {}, leaseToken: lease.leaseToken });
});

test('what is known is given back; what is not is shown shortened', () => {
  const known = { order: ['fifo', 'lifo'], size: true } as const;
  expect(expectKnown('it', { order: 'fifo', size: 3 }, known)).toEqual({ order: 'fifo', size: 3 });
  expect(() => expectKnown('it', { order: 'x'.repeat(99), size: 3 }, known)).toThrow(`order "${'x'.repeat(20)}`);
  expect(() => expectKnown('it', JSON.parse('{"constructor": 1}') as object, known)).toThrow(NewerRecordError);
  expect(ifKnown(() => expectKnown('it', { size: 3, order: 'other' }, known))).toBeUndefined();
  const fault = new Error('another');
  expect(() =>
    ifKnown(() => {
      throw fault;
    }),
  ).toThrow(fault);
});
