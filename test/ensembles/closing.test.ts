/** Closing a namespace is strict: afterwards no replica acknowledges anything there, however late it hears of it. */
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { EventReader } from '../support/http/event-stream.js';
import type { Client } from '../support/http/client.js';
import { spawnReplica, type Replica } from '../support/start-gateway.js';
import { scaled, timing } from '../support/timing.js';
import { TestControl } from '../support/zookeeper/sessions.js';
import { inNamespace, reasonsOf, startOnce, startTwo, untilInForce, untilRefused, type Two } from './two.js';

const ORDERS = inNamespace('orders');
const CLOSED = { orders: { ensemble: 'default', closed: true } };

async function agreedAt(replica: Client, ensemble: string): Promise<number> {
  const text = (await replica.call('GET', '/metrics')).body as string;
  return Number(
    new RegExp(`^postern_ensemble_agreed_version\\{ensemble="${ensemble}"\\} (\\d+)$`, 'm').exec(text)?.[1],
  );
}

/** The keys of the namespace that moved away, at the ensemble that it left, and their values. */
async function keptAtEast({ gateway }: Replica): Promise<(readonly [string, string])[]> {
  const { control, layout } = gateway.ensembles[0]!.foundation.context;
  const zk = control.until(performance.now() + timing.processMs);
  const keys = (await zk.children(layout.config('orders'))).toSorted();
  return Promise.all(
    keys.map(async (key) => [key, String((await zk.find(layout.configKey('orders', key)))?.data)] as const),
  );
}

/** Nothing is done in the moved namespace, and all is in another one, before `west` and what it has are found again. */
async function expectNothingDoneUntilWestIsBack(two: Two, path: string): Promise<void> {
  await using replica = await two.start(path);
  expect(await replica.expect(503, 'PUT', '/v1/config/app', { body: 2, ...ORDERS })).toMatchObject({
    code: 'zookeeper-unavailable',
    outcome: 'not-applied',
  });
  await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...inNamespace('billing') });
  await two.west.restart();
  await untilInForce(replica, 2);
  expect((await replica.call('GET', '/v1/config/app', ORDERS)).body).toBe(1);
}

test(
  'a replica that stood still while a namespace moved away does nothing there any more',
  { timeout: scaled(120_000) },
  async () => {
    await using two = await startTwo();
    const path = two.file(1, {});
    await using replica = await two.start(path);
    const settings = { POSTERN_ENSEMBLES: path };
    await using hung = await spawnReplica({ zookeeper: two.east.connectString, root: two.root, settings });
    await untilInForce(replica, 1);
    await hung.expect(201, 'PUT', '/v1/config/app', { body: { kept: 0 }, ...ORDERS });
    await eventually('both have told', async () => (await agreedAt(hung, 'default')) === 1);

    hung.pause();
    two.file(2, CLOSED);
    await untilInForce(replica, 2);
    expect(await agreedAt(replica, 'default')).toBe(1);
    two.file(3, { orders: 'west' });
    await untilRefused(replica, /1 of 2 processes that serve "default" have not heard of version 2 yet/);

    // What comes meanwhile it finds when it goes on, with the map of before in its mind.
    const late = Array.from({ length: 20 }, (_, i) =>
      hung.call('PUT', `/v1/config/${i % 2 === 0 ? 'app' : `new-${i}`}`, { body: { kept: 1 }, ...ORDERS }),
    );
    const read = hung.call('GET', '/v1/config/app', ORDERS);
    // Its session ends, and with that what it might do.
    await untilInForce(replica, 3);
    const before = await keptAtEast(replica);
    hung.resume();
    // Refused, or done where the namespace lies now, if it read the map before it came to the request.
    const answers = await Promise.all(late);
    const done = answers.filter(({ status }) => status === 201 || status === 200); // 200: "app" was written before
    for (const { status, body } of answers.filter((answer) => !done.includes(answer)))
      expect([status, body]).toEqual([503, expect.objectContaining({ namespace: 'orders' })]);
    expect((await read).body).not.toMatchObject({ kept: 0 });
    await untilInForce(hung, 3);
    for (const { body } of done)
      expect(await replica.expect(200, 'GET', `/v1/config/${body.key}`, ORDERS)).toEqual({ kept: 1 });
    expect(await keptAtEast(replica)).toEqual(before);
    await hung.expect([200, 201], 'PUT', '/v1/config/app', { body: { kept: 2 }, ...ORDERS });
    expect(await replica.expect(200, 'GET', '/v1/config/app', ORDERS)).toEqual({ kept: 2 });
    expect(await keptAtEast(replica)).toEqual(before);
  },
);

test(
  'what waits in a namespace that is closed is answered at once, and a stream that prolongs a lease ends',
  { timeout: scaled(60_000) },
  async () => {
    await using two = await startTwo();
    await using replica = await two.start(two.file(1, {}));
    await untilInForce(replica, 1);
    const lease = (): Promise<{ leaseToken: string }> =>
      replica.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...ORDERS });
    const [holder, waiter] = [await lease(), await lease()];
    const acquire = { body: { requestId: 'a' }, leaseToken: holder.leaseToken };
    await replica.expect(200, 'POST', '/v1/locks/l/acquire', acquire);
    const waiting = replica.call('POST', '/v1/locks/l/acquire', {
      body: { requestId: 'b', waitMs: 50_000 },
      leaseToken: waiter.leaseToken,
    });
    await eventually(
      'it waits',
      async () => (await replica.expect(200, 'GET', '/v1/locks/l', ORDERS)).waiters.length === 1,
    );
    const { leaseToken } = holder;
    await using stream = await EventReader.open(replica.url, '/v1/leases/self/events', { leaseToken });
    two.file(2, CLOSED);
    const withdrawn = (await waiting).body;
    expect(withdrawn).toMatchObject({ code: 'outcome-unknown', namespace: 'orders', status: 503 });
    expect(withdrawn.detail).toMatch(/^The namespace "orders" was closed, .* it may have been done\.$/);
    await eventually('the stream ends', async () => stream.ended);
    const problem = stream.seen.at(-1);
    expect(problem).toMatchObject({ event: 'problem', data: { status: 503, namespace: 'orders' } });
    await untilInForce(replica, 2);
    two.file(3, { orders: 'west' });
    await untilRefused(replica, /"orders" does not move to "west": leases live in it at "default"/);
  },
);

test('a namespace does not come back to data that it has left', { timeout: scaled(90_000) }, async () => {
  await using two = await startTwo();
  // Fencing tokens there keep nothing from coming back.
  const settings = { POSTERN_FENCING_FLOOR: String(2 ** 42) };
  const path = two.file(1, { orders: 'west' });
  await startOnce(two, path);
  await using replica = await two.start(path, { settings });
  await untilInForce(replica, 1);
  const { control, layout } = replica.gateway.ensembles[0]!.foundation.context;
  const zk = control.until(performance.now() + timing.processMs);
  await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
  await zk.ensure(layout.configKey('orders', 'old'));
  two.file(2, { orders: { ensemble: 'west', closed: true } });
  await untilInForce(replica, 2);
  two.file(3, {});
  await untilRefused(
    replica,
    /"default" has data of it from before, .*: remove \S+\/ns\/orders in ZooKeeper there first/,
  );
  await control.removeRecursive(layout.namespace('orders'), performance.now() + timing.processMs);
  await untilInForce(replica, 3);
});

test('a `default` that was set back to an older map is given the newest', { timeout: scaled(60_000) }, async () => {
  await using two = await startTwo();
  await using replica = await two.start(two.file(1, {}));
  await untilInForce(replica, 1);
  const { control, layout } = replica.gateway.ensembles[0]!.foundation.context;
  const path = `${layout.root}/ensembles`;
  const zk = control.until(performance.now() + timing.processMs);
  const old = await zk.find(path);
  two.file(2, { orders: 'west' });
  await untilInForce(replica, 2);
  await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
  await zk.set(path, old!.data);
  await eventually('it has the newest again', async () => !(await zk.find(path))!.data.equals(old!.data));
  await untilInForce(replica, 2);
  await replica.expect(200, 'GET', '/v1/config/app', ORDERS);
  expect(await reasonsOf(replica)).toEqual([]);
});

test(
  'a `default` that was made anew does nothing where the file says that it lies on an ensemble that is away',
  { timeout: scaled(90_000) },
  async () => {
    await using two = await startTwo();
    const path = two.file(2, { orders: 'west' });
    {
      await using replica = await two.start(path);
      await untilInForce(replica, 2);
      await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
    }
    await two.west.kill();
    await using control = await TestControl.open(two.east.connectString);
    await control.delete(`${two.root}/ensembles`);
    await expectNothingDoneUntilWestIsBack(two, path);
  },
);

test(
  'a `default` that was set back does nothing where a newer file says that it lies on an ensemble that is away',
  { timeout: scaled(90_000) },
  async () => {
    await using two = await startTwo();
    await using control = await TestControl.open(two.east.connectString);
    const path = two.file(1, {});
    const map = `${two.root}/ensembles`;
    let old: Buffer;
    {
      await using replica = await two.start(path);
      await untilInForce(replica, 1);
      old = (await control.getData(map)).data;
      two.file(2, { orders: 'west' });
      await untilInForce(replica, 2);
      await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
    }
    await two.west.kill();
    await control.setData(map, old);
    await expectNothingDoneUntilWestIsBack(two, path);
  },
);

test(
  'a name that stands for `default` by a wrong address is bound to nothing',
  { timeout: scaled(60_000) },
  async () => {
    await using two = await startTwo();
    {
      await using wrong = await two.start(two.file(1, {}, 'ensembles.json', two.east.connectString, 0));
      await untilRefused(wrong, /The data there belong to the ensemble "default"/);
    }
    await using right = await two.start(two.file(2, { orders: 'west' }, 'ensembles.json', two.west.connectString, 0));
    await untilInForce(right, 2);
    await right.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
  },
);

test(
  'a rolling update stops where the floor cannot be raised beside the others',
  { timeout: scaled(60_000) },
  async () => {
    await using two = await startTwo();
    await using replica = await two.start(two.file(1, {}));
    await untilInForce(replica, 1);
    const higher = two.file(1, {}, 'higher.json', two.west.connectString, 2 ** 43);
    const settings = { POSTERN_FENCING_FLOOR: String(2 ** 43), POSTERN_ENSEMBLES: higher };
    const started = { zookeeper: two.east.connectString, root: two.root, becomesReady: false };
    await using next = await spawnReplica({ ...started, settings });
    await eventually('it listens', async () => (await next.call('GET', '/healthz')).status === 200);
    await untilRefused(next, /POSTERN_FENCING_FLOOR is .*: it can be raised only when nobody counts with it/);
    await untilRefused(next, /^Ensemble "west": fencingFloor of "west" in the file of POSTERN_ENSEMBLES is /);
    await next.expect(503, 'GET', '/readyz');
    await replica.expect(200, 'GET', '/readyz');
  },
);
