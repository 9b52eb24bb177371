/**
 * A leader that was replaced and has not noticed: it stood still, or is cut off. It answers reads and `sync`, and shows
 * what was true when it was replaced. Replica A is at that one, replica B at the others.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LeaseHandle, Reply } from '../support/http/client.js';
import { eventually, throughout } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, startEnsemble, type TestEnsemble, type ZooKeeperNode } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';

const LONG_MS = 60_000;
const KINDS = ['locks', 'rwlocks', 'semaphores', 'elections'] as const;

let ensemble: TestEnsemble;
let old: ZooKeeperNode;
let others: string;
let a: Replica;
let b: Replica;

beforeEach(async () => {
  ensemble = await startEnsemble({ proxiedPeers: true, config: { syncLimit: '20' } });
  old = await ensemble.leader();
  others = (await ensemble.followers()).map(({ connectString }) => connectString).join(',');
  const root = freshRoot();
  // The leader that was replaced hears nothing of B. Once it wants to end a session, which needs a quorum, it notices
  // that it has none.
  a = await startReplica({ root, zookeeper: old.connectString, controlSessionTimeoutMs: LONG_MS });
  b = await startReplica({ root, zookeeper: others, controlSessionTimeoutMs: LONG_MS });
}, scaled(60_000));

afterEach(async () => {
  ensemble.rejoin(old.id);
  await a[Symbol.asyncDispose]();
  await b[Symbol.asyncDispose]();
  await ensemble.stop();
}, scaled(60_000));

/** So that what follows is tried at a server that answers, and answers wrongly. */
async function expectPast(): Promise<void> {
  const { control, layout } = a.gateway.context;
  const path = `${layout.config('default')}/key`;
  const [, { data }] = await Promise.all([control.sync('/', performance.now() + 5_000), control.getData(path)]);
  expect(data.toString()).toContain('old');
}

async function replace(): Promise<void> {
  await a.expect(201, 'PUT', '/v1/config/key', { body: 'old', headers: { 'content-type': 'text/plain' } });
  await eventually('B has it', async () => (await b.call('GET', '/v1/config/key')).body === 'old');
  await ensemble.replaceUnnoticed(old.id);
  await eventually('B writes', async () => {
    const put = await b.call('PUT', '/v1/config/key', {
      body: 'new',
      headers: { 'content-type': 'text/plain', 'idempotency-key': 'the-new-one-of-this-test' },
    });
    return put.status === 200;
  });
}

test(
  'a check never says of a lost hold that it is current, whatever the leader that was replaced believes (C37)',
  { timeout: scaled(90_000) },
  async () => {
    const holder = await a.createLease({ ttlMs: 3_000 });
    const held = await Promise.all(
      KINDS.map(async (kind) => {
        const path = `/v1/${kind}/name/${kind === 'elections' ? 'campaign' : 'acquire'}`;
        const body = { semaphores: { limit: 1 }, rwlocks: { mode: 'write' }, elections: {}, locks: {} }[kind];
        const { fencingToken } = (await a.expect(200, 'POST', path, { body, ...holder })) as { fencingToken: number };
        return { kind, path, body, fencingToken };
      }),
    );
    // Its sessions live on at the leader that was replaced, which could not end one without its followers.
    const beating = setInterval(() => void a.heartbeat(holder).catch(() => undefined), 300);
    await replace();
    const next = await b.createLease({ ttlMs: LONG_MS });
    await Promise.all(held.map(({ path, body }) => granted(b, path, body, next)));
    await expectPast();
    clearInterval(beating);

    const checks = held.map(({ kind, fencingToken }) =>
      a.call('POST', `/v1/${kind}/name/check`, { body: { fencingToken } }),
    );
    // Whatever is answered while it is in office, it is not that.
    let answered = 0;
    for (const check of checks) void check.then(() => (answered += 1));
    await throughout('nothing is answered that no quorum knows', () => answered === 0);
    ensemble.rejoin(old.id);
    for (const { status, body } of await Promise.all(checks)) {
      expect(status).toBe(200);
      expect(body).toMatchObject({ current: false });
    }
  },
);

async function granted(replica: Replica, path: string, body: object, lease: LeaseHandle): Promise<void> {
  await replica.expect(200, 'POST', path, { body: { ...body, waitMs: 20_000 }, ...lease });
}

test(
  'what one name is asked about is not told from before the leader was replaced (C37)',
  { timeout: scaled(90_000) },
  async () => {
    await b.expect(200, 'POST', '/v1/counters/count/add', { body: { by: 1 } });
    await b.expect([200, 201], 'PUT', '/v1/barriers/lifted-then', {});
    await b.expect(204, 'DELETE', '/v1/barriers/lifted-then', {});
    await b.expect(200, 'PUT', '/v1/semaphores/permits', { body: { limit: 3 } });
    const { transactionId } = (await b.expect(201, 'POST', '/v1/transactions', {
      body: { participants: ['one'], deadlineMs: LONG_MS },
    })) as { transactionId: string };
    await eventually(
      'A has all of it',
      async () => (await a.call('GET', `/v1/transactions/${transactionId}`)).status === 200,
    );
    await replace();
    await b.expect(200, 'POST', '/v1/counters/count/add', { body: { by: 1 } });
    await b.expect(201, 'PUT', '/v1/barriers/lifted-then', {});
    await b.expect(200, 'PUT', '/v1/semaphores/permits', { body: { limit: 5 } });
    await b.expect(200, 'POST', `/v1/transactions/${transactionId}/abort`, { body: {} });
    const etag = (await b.call('GET', '/v1/config/key')).headers['etag'] as string;
    await b.expect(201, 'PUT', '/v1/config/made', { body: 'now', headers: { 'content-type': 'text/plain' } });
    const { fencingToken } = await b.hold('writes', await b.createLease({ ttlMs: LONG_MS }));
    await expectPast();

    const asked = Promise.all([
      a.call('GET', '/v1/config/key'),
      a.call('GET', '/v1/counters/count'),
      a.call('GET', '/v1/barriers/lifted-then?waitMs=100'),
      a.call('GET', `/v1/transactions/${transactionId}`),
      // What would be done without a write, or refused without one.
      a.call('PUT', '/v1/semaphores/permits', { body: { limit: 3 } }),
      a.call('PUT', '/v1/config/key', {
        body: 'newer',
        headers: { 'content-type': 'text/plain', 'if-match': etag },
      }),
      a.call('DELETE', '/v1/config/made'),
      a.call('PUT', '/v1/config/guarded', {
        body: 'by its holder',
        headers: { 'content-type': 'text/plain', guard: `lock=writes;token=${fencingToken}` },
      }),
      a.call('POST', '/v1/config/read', { body: { keys: ['key'] } }),
    ]);
    let answered = false;
    void asked.then(() => (answered = true));
    await throughout('nothing is answered that no quorum knows', () => !answered);
    ensemble.rejoin(old.id);
    const [key, counter, barrier, transaction, limit, put, deleted, guarded, together] = await asked;
    expect(key.body).toMatch(/^newe?r?$/);
    expect(counter.body).toMatchObject({ value: 2 });
    expect(barrier.body).toMatchObject({ raised: true });
    expect(transaction.body).toMatchObject({ state: 'aborted' });
    expect(limit.status).toBe(200);
    expect((await b.expect(200, 'GET', '/v1/semaphores/permits')) as object).toMatchObject({ limit: 3 });
    expect(put.status).toBe(200);
    expect(deleted.status).toBe(204);
    expect(guarded.status).toBe(201);
    const [{ valueBase64 }] = (together.body as { items: [{ valueBase64: string }] }).items;
    expect(Buffer.from(valueBase64, 'base64').toString()).toMatch(/^newe?r?$/);
    expect((await b.call('GET', '/v1/config/made')).status).toBe(404);
  },
);

test(
  'an occurrence that was done, or whose lease ended, is not told to be running from before that (C37, C48)',
  { timeout: scaled(90_000) },
  async () => {
    const [first, second] = [await a.createLease({ ttlMs: LONG_MS }), await a.createLease({ ttlMs: LONG_MS })];
    const run = (replica: Replica, verb: 'start' | 'finish', lease: LeaseHandle, body: object): Promise<Reply> =>
      replica.call('POST', `/v1/runs/report/${verb}`, { body, leaseToken: lease.leaseToken });
    const begun = await run(a, 'start', first, { occurrence: 'done-then' });
    const { fencingToken } = begun.body as { fencingToken: number };
    expect((await run(a, 'start', first, { occurrence: 'lost-then' })).body).toMatchObject({ started: true });
    await replace();
    const done = { occurrence: 'done-then', outcome: 'done', fencingToken };
    expect((await run(b, 'finish', first, done)).status).toBe(200);
    expect((await b.endLease(first)).status).toBe(204);
    await expectPast();

    const asked = Promise.all([
      run(a, 'start', second, { occurrence: 'done-then' }),
      run(a, 'start', second, { occurrence: 'lost-then' }),
      a.call('GET', '/v1/runs/report'),
    ]);
    let answered = false;
    void asked.then(() => (answered = true));
    await throughout('nothing is answered that no quorum knows', () => !answered);
    ensemble.rejoin(old.id);
    const [doneThen, lost, shown] = await asked;
    expect(doneThen.body).toMatchObject({ started: false, state: 'done' });
    expect(lost.body).toMatchObject({ started: true, attempt: 2 });
    expect((shown.body as { occurrences: object[] }).occurrences).toContainEqual(
      expect.objectContaining({ occurrence: 'done-then', state: 'done' }),
    );
  },
);

test(
  'a cursor that a message posted since has is not refused, and that message is read (C37, C61)',
  { timeout: scaled(90_000) },
  async () => {
    const path = '/v1/groups/told/messages';
    const post = (replica: Replica, body: string): Promise<Reply> => replica.call('POST', path, { body: { body } });
    const before = (await post(a, 'before')).body as { number: number };
    await replace();
    const [first, second] = [(await post(b, 'first')).body, (await post(b, 'second')).body] as { number: number }[];
    await expectPast();

    const asked = Promise.all(
      [before, first, second].map((cursor) => a.call('GET', `${path}?after=${cursor?.number}`)),
    );
    let answered = false;
    void asked.then(() => (answered = true));
    await throughout('nothing is answered that no quorum knows', () => !answered);
    ensemble.rejoin(old.id);
    const pages = (await asked).map(({ body }) => body as { messages: { body: unknown }[] });
    const bodies = pages.map(({ messages }) => messages.map(({ body }) => body));
    expect(bodies).toEqual([['first', 'second'], ['second'], []]);
  },
);

const pass = (replica: Replica, how: 'enter' | 'leave', name: string, lease: LeaseHandle, waitMs: number) =>
  replica.call('POST', `/v1/double-barriers/${name}/${how}`, {
    body: { waitMs, ...(how === 'enter' && { size: 2 }) },
    leaseToken: lease.leaseToken,
  });

test(
  'what is found done, or refused without a write, is not told from before the leader was replaced (C37)',
  { timeout: scaled(90_000) },
  async () => {
    const [first, second, third] = [
      await a.createLease({ ttlMs: LONG_MS }),
      await a.createLease({ ttlMs: LONG_MS }),
      await a.createLease({ ttlMs: LONG_MS }),
    ];
    const both = async (replica: Replica, how: 'enter' | 'leave', name: string): Promise<void> => {
      const answers = await Promise.all([first, second].map((lease) => pass(replica, how, name, lease, 20_000)));
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    };
    const { leaseToken } = third;
    await both(a, 'enter', 'left-then');
    await a.heartbeat(third);
    await replace();
    const [{ transactionId }] = (await Promise.all([
      b.expect(201, 'POST', '/v1/transactions', { body: { participants: ['one'], deadlineMs: LONG_MS } }),
      both(b, 'leave', 'left-then'),
      both(b, 'enter', 'entered-then'),
      b.expect([200, 201], 'PUT', '/v1/groups/team/members/me', { body: {}, leaseToken }),
      b.expect(200, 'POST', '/v1/locks/name/acquire', { body: { requestId: 'mine' }, leaseToken }),
      b.expect(200, 'POST', '/v1/elections/name/campaign', { body: {}, leaseToken }),
      b.expect(201, 'POST', '/v1/queues/mails/messages', { body: { messages: [{ body: 1 }] } }),
    ])) as [{ transactionId: string }, ...unknown[]];
    await expectPast();

    const asked = [
      pass(a, 'enter', 'left-then', first, 0),
      pass(a, 'leave', 'entered-then', second, 0),
      a.call('DELETE', '/v1/groups/team/members/me', { leaseToken }),
      a.call('POST', '/v1/locks/name/release', { body: { requestId: 'mine' }, leaseToken }),
      a.call('POST', '/v1/elections/name/proclaim', { body: { value: 'mine' }, leaseToken }),
      a.call('POST', '/v1/queues/mails/purge', { body: {} }),
      a.call('POST', `/v1/transactions/${transactionId}/vote`, {
        body: { participant: 'one', vote: 'commit' },
        leaseToken,
      }),
    ];
    let answered = 0;
    for (const request of asked) void request.then(() => (answered += 1));
    await throughout('nothing is answered that no quorum knows', () => answered === 0);
    ensemble.rejoin(old.id);
    const [enter, leave, group, release, proclaim, purge, vote] = (await Promise.all(asked)) as [
      Reply,
      Reply,
      Reply,
      Reply,
      Reply,
      Reply,
      Reply,
    ];
    // Nobody else is there again, so it waits alone; and the other one is still in.
    expect(enter.body).toMatchObject({ entered: false });
    expect(leave.body).toMatchObject({ left: false });
    expect([group.status, release.status, proclaim.status, vote.status]).toEqual([204, 204, 200, 200]);
    expect(purge.body).toMatchObject({ purged: 1 });
    expect(await b.showLock('name')).toMatchObject({ holderCount: 0 });
    expect((await b.call('GET', '/v1/groups/team')).body).toMatchObject({ memberCount: 0 });
  },
);

test(
  'no lease is told that it has ended, or was ended, by a leader that was replaced before the lease began (C44)',
  { timeout: scaled(90_000) },
  async () => {
    await replace();
    const [kept, ended] = [await b.createLease({ ttlMs: LONG_MS }), await b.createLease({ ttlMs: LONG_MS })];
    await b.expect(200, 'POST', '/v1/locks/kept/acquire', { body: {}, ...kept });
    await b.expect(200, 'POST', '/v1/locks/ended/acquire', { body: {}, ...ended });

    const asked = [a.heartbeat(kept), a.call('DELETE', '/v1/leases/self', ended)] as const;
    let answered = 0;
    for (const request of asked) void request.then(() => (answered += 1));
    await throughout('nothing is answered that no quorum knows', () => answered === 0);
    ensemble.rejoin(old.id);
    const [heartbeat, end] = await Promise.all(asked);
    expect([heartbeat.status, end.status]).toEqual([200, 204]);
    expect(await b.showLock('kept')).toMatchObject({ holderCount: 1 });
    expect(await b.showLock('ended')).toMatchObject({ holderCount: 0 });
    const metrics = await (await fetch(`${a.url}/metrics`)).text();
    expect(metrics).toMatch(/^postern_leases_expired_total 0$/m);
  },
);
