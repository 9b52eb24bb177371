/** How the map of namespaces changes, what is refused, and how a namespace is moved (ADR 41). */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCommand } from '../command/run-command.js';
import { eventually } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { inNamespace, reasonsOf, startOnce, startTwo, untilInForce, untilRefused, type Two } from './two.js';

let two: Two;

beforeAll(async () => {
  two = await startTwo();
}, scaled(60_000));

afterAll(() => two[Symbol.asyncDispose](), scaled(60_000));

function untilNoLease(replica: Replica, namespace: string): Promise<unknown> {
  return eventually(
    'its leases have ended',
    async () => (await replica.expect(200, 'GET', '/v1/leases', inNamespace(namespace))).items.length === 0,
    { withinMs: timing.processMs },
  );
}

/** In `orders`, which is closed, reads without a lease are answered, and nothing else is. */
async function expectOnlyReads(replica: Replica, leaseToken: string, fencingToken: number): Promise<void> {
  const orders = inNamespace('orders');
  const closed = { code: 'zookeeper-unavailable', outcome: 'not-applied', namespace: 'orders' };
  expect(await replica.expect(503, 'PUT', '/v1/config/app', { body: {}, ...orders })).toMatchObject(closed);
  expect(await replica.expect(503, 'POST', '/v1/leases/self/heartbeat', { leaseToken })).toMatchObject(closed);
  await replica.expect(503, 'GET', '/v1/leases/self', { leaseToken });
  const check = { body: { fencingToken } };
  expect(await replica.expect(200, 'POST', '/v1/locks/l/check', { ...check, ...orders })).toHaveProperty('current');
  await replica.expect(503, 'POST', '/v1/locks/l/check', { ...check, leaseToken });
  const keys = { body: { keys: ['app'] } };
  expect((await replica.expect(200, 'POST', '/v1/config/read', { ...keys, ...orders })).items).toHaveLength(1);
}

/** What each ensemble has of the key `app` of `orders`. */
function keysOf({ gateway }: Replica): Promise<string[]> {
  const contexts = gateway.ensembles.map(({ foundation }) => foundation.context);
  return Promise.all(
    contexts.map(async ({ control, layout }) =>
      String((await control.getData(layout.configKey('orders', 'app'))).data),
    ),
  );
}

async function output(url: string, words: readonly string[]): Promise<string> {
  const run = runCommand(words, { url });
  expect(await run.code(), run.stderr).toBe(0);
  return run.stdout;
}

describe('a namespace moves', { timeout: scaled(180_000) }, () => {
  test('by being closed, exported, mapped and imported, and no replica serves it at both', async () => {
    const path = two.file(1, {});
    await using replica = await two.start(path);
    await untilInForce(replica, 1);
    const orders = inNamespace('orders');
    const { leaseToken } = await replica.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...orders });
    const before = await replica.expect(200, 'POST', '/v1/locks/l/acquire', { body: { requestId: 'a' }, leaseToken });
    await replica.expect(201, 'PUT', '/v1/config/app', { body: { kept: 1 }, ...orders });
    await replica.expect(201, 'POST', '/v1/queues/jobs/messages', {
      body: { messages: [{ body: 1 }, { body: 2 }] },
      ...orders,
    });

    // It is in use, and not closed.
    two.file(2, { orders: 'west' });
    await untilRefused(replica, /"orders" does not move to "west": it is in use and not closed/);
    await replica.expect(200, 'PUT', '/v1/config/app', { body: { kept: 2 }, ...orders });

    two.file(2, { orders: { ensemble: 'default', closed: true } });
    await untilInForce(replica, 2);
    await expectOnlyReads(replica, leaseToken, before.fencingToken);
    await replica.expect(201, 'PUT', '/v1/config/app', { body: {} });
    await untilNoLease(replica, 'orders');
    const backup = join(mkdtempSync(join(tmpdir(), 'postern-move-')), 'orders.jsonl');
    writeFileSync(backup, await output(replica.url, ['export', '--namespace', 'orders']));

    // A replica that has the older file is told of the newer one, and goes by it.
    const stale = two.file(1, {}, 'stale.json');
    await using late = await two.start(stale);
    await untilInForce(late, 2);
    two.file(3, { orders: 'west' });
    await Promise.all([untilInForce(replica, 3), untilInForce(late, 3)]);
    await untilRefused(late, /The file has the version 1, and version 3 is in force/);

    await replica.expect(404, 'GET', '/v1/config/app', orders);
    await output(replica.url, ['import', backup, '--namespace', 'orders']);
    for (const one of [replica, late]) {
      await one.expect(200, 'GET', '/v1/config/app', orders);
      expect(await one.expect(200, 'GET', '/v1/queues/jobs', orders)).toMatchObject({ depth: 2 });
    }
    await late.expect(200, 'PUT', '/v1/config/app', { body: { kept: 3 }, ...orders });
    expect(await keysOf(replica)).toEqual([
      expect.stringContaining('{"kept":2}') as string,
      expect.stringContaining('{"kept":3}') as string,
    ]);

    const again = await late.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...orders });
    const after = await late.expect(200, 'POST', '/v1/locks/l/acquire', {
      body: { requestId: 'a' },
      leaseToken: again.leaseToken,
    });
    expect(after.fencingToken).toBeGreaterThan(before.fencingToken);
    await late.expect(204, 'DELETE', '/v1/leases/self', { leaseToken: again.leaseToken });
  });

  test('not back to where fencing tokens are lower', async () => {
    const path = two.file(4, { orders: { ensemble: 'west', closed: true } });
    await using replica = await two.start(path);
    await untilInForce(replica, 4);
    two.file(5, {});
    await untilRefused(replica, /"orders" does not move to "default": fencing tokens there are lower/);
    expect((await replica.call('GET', '/v1/config/app', inNamespace('orders'))).body).toEqual({ kept: 3 });
  });
});

test(
  'a replica without the file does nothing where the map names a namespace',
  { timeout: scaled(60_000) },
  async () => {
    const { root, east } = two;
    await using replica = await startReplica({ zookeeper: east.connectString, root, registers: false });
    await untilRefused(replica, /Set POSTERN_ENSEMBLES/);
    expect((await replica.expect(503, 'PUT', '/v1/config/x', { body: {} })).detail).toContain('Set POSTERN_ENSEMBLES');
  },
);

test('schedules rest where their namespace is closed', { timeout: scaled(120_000) }, async () => {
  const own = await startTwo();
  try {
    const path = own.file(1, { ticks: 'west' });
    await using replica = await own.start(path, { settings: { POSTERN_SCHEDULE_SECONDS: 'true' } });
    await untilInForce(replica, 1);
    const schedule = { cron: '* * * * * *', timeZone: 'UTC', to: { queue: 'jobs', body: {} } };
    const depth = async (namespace: string): Promise<number> =>
      (await replica.call('GET', '/v1/queues/jobs', inNamespace(namespace))).body.depth ?? 0;
    const untilDeeper = async (namespace: string, than: number): Promise<unknown> =>
      eventually('it has fired', async () => (await depth(namespace)) > than, { withinMs: timing.processMs });
    for (const namespace of ['ticks', 'others']) {
      await replica.expect(201, 'PUT', '/v1/schedules/each', { body: schedule, ...inNamespace(namespace) });
      await untilDeeper(namespace, 0);
    }
    own.file(2, { ticks: { ensemble: 'west', closed: true } });
    await untilInForce(replica, 2);
    await untilDeeper('others', await depth('others'));
    const resting = await depth('ticks');
    await untilDeeper('others', (await depth('others')) + 2);
    expect(await depth('ticks')).toBe(resting);
    own.file(3, { ticks: 'west' });
    await untilDeeper('ticks', resting);
  } finally {
    await own[Symbol.asyncDispose]();
  }
});

test(
  'a replica that reaches another ensemble under a name refuses it, and serves the others',
  { timeout: scaled(120_000) },
  async () => {
    const own = await startTwo();
    try {
      await using another = await startZooKeeper();
      await using right = await own.start(own.file(1, { orders: 'west' }));
      await untilInForce(right, 1);
      const orders = inNamespace('orders');
      await right.expect(201, 'PUT', '/v1/config/app', { body: 1, ...orders });

      await using wrong = await own.start(own.file(1, { orders: 'west' }, 'wrong.json', another.connectString));
      await untilRefused(wrong, /^Ensemble "west": It is another ensemble than the one that "west" stands for/);
      const refused = { code: 'zookeeper-unavailable', outcome: 'not-applied', namespace: 'orders' };
      expect(await wrong.expect(503, 'PUT', '/v1/config/app', { body: 2, ...orders })).toMatchObject(refused);
      const { detail } = await wrong.expect(503, 'GET', '/v1/config/app', orders);
      expect(detail).toContain('It is another ensemble');
      await wrong.expect(201, 'PUT', '/v1/config/app', { body: 1, ...inNamespace('billing') });
      expect((await wrong.call('GET', '/metrics')).body).toContain('postern_ensemble_ready{ensemble="west"} 0\n');

      // It moves nothing there, and a later map does not go there either.
      own.file(2, { orders: 'west', more: 'west' }, 'wrong.json', another.connectString);
      await untilRefused(wrong, /"more" does not move to "west": the ensemble "west" is not ready/);
      own.file(2, { orders: 'west', more: 'west' });
      await untilInForce(right, 2);
      await eventually('the wrong one has read the map', async () =>
        ((await wrong.call('GET', '/metrics')).body as string).includes(
          'postern_ensemble_map_version{ensemble="default"} 2\n',
        ),
      );
      await wrong.expect(503, 'PUT', '/v1/config/app', { body: 2, ...inNamespace('more') });
      await right.expect(200, 'PUT', '/v1/config/app', { body: 3, ...orders });
      const { control, layout } = wrong.gateway.ensembles[1]!.foundation.context;
      const deadline = performance.now() + timing.eventuallyMs;
      expect(await control.until(deadline).find(`${layout.root}/ensembles`)).toBeUndefined();
    } finally {
      await own[Symbol.asyncDispose]();
    }
  },
);

test(
  'a namespace does not leave an ensemble that was away when it was opened again',
  { timeout: scaled(120_000) },
  async () => {
    const own = await startTwo();
    try {
      // Fencing tokens there keep nothing from moving back.
      const settings = { POSTERN_FENCING_FLOOR: String(2 ** 42) };
      const path = own.file(1, { orders: 'west' });
      await startOnce(own, path);
      await using replica = await own.start(path, { settings });
      await untilInForce(replica, 1);
      await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...inNamespace('orders') });
      own.file(2, { orders: { ensemble: 'west', closed: true } });
      await untilInForce(replica, 2);
      await own.west.kill();
      own.file(3, { orders: 'west' });
      const inForce = 'postern_ensemble_map_version{ensemble="default"} 3\n';
      await eventually(
        'the opening is in force',
        async () => ((await replica.call('GET', '/metrics')).body as string).includes(inForce),
        { withinMs: timing.processMs },
      );
      own.file(4, {});
      await untilRefused(replica, /"orders" does not move to "default": /);
      await own.west.restart();
      await untilRefused(replica, /"orders" does not move to "default": it is in use and not closed/);
      await replica.expect(200, 'PUT', '/v1/config/app', { body: 2, ...inNamespace('orders') });
    } finally {
      await own[Symbol.asyncDispose]();
    }
  },
);

test('a map that moves hundreds of namespaces is checked in time, however far away an ensemble is', async () => {
  await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
  const west = sharedZooKeeper() + freshRoot();
  const names = Array.from({ length: 600 }, (_, i) => `n${String(i).padStart(3, '0')}`);
  const path = two.file(1, {}, 'many.json', west, 0);
  await using replica = await two.start(path, { zookeeper: proxy.connectString, root: freshRoot() });
  await untilInForce(replica, 1);
  proxy.delay('fromZooKeeper', 20);
  two.file(2, Object.fromEntries(names.map((name) => [name, 'west'])), 'many.json', west, 0);
  await untilInForce(replica, 2);
  proxy.heal();

  // Of several that do not move, the first is told.
  for (const name of ['n555', 'n550', 'n590'])
    await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...inNamespace(name) });
  two.file(3, {}, 'many.json', west, 0);
  await untilRefused(replica, /"n550" does not move to "default": it is in use and not closed/);
});

test('what has moved counts as used, also before anything is done there', { timeout: scaled(120_000) }, async () => {
  await using own = await startTwo();
  await using replica = await own.start(own.file(1, {}));
  await untilInForce(replica, 1);
  const { leaseToken } = await replica.expect(201, 'POST', '/v1/leases', {
    body: { ttlMs: 20_000 },
    ...inNamespace('orders'),
  });
  await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
  own.file(2, { orders: { ensemble: 'default', closed: true } });
  await untilInForce(replica, 2);
  own.file(3, { orders: 'west' });
  await untilInForce(replica, 3);
  const { control, layout } = replica.gateway.ensembles[0]!.foundation.context;
  await control.removeRecursive(layout.namespace('orders'), performance.now() + timing.processMs);
  own.file(4, {});
  await untilRefused(replica, /"orders" does not move to "default": it is in use and not closed/);
  own.file(4, { orders: { ensemble: 'west', closed: true } });
  await untilInForce(replica, 4);
  own.file(5, {});
  await untilRefused(replica, /"orders" does not move to "default": fencing tokens there are lower/);
});

describe('a file', { timeout: scaled(120_000) }, () => {
  test('that is bad, another one of the version in force, or names other servers is refused, and the map goes on', async () => {
    const own = await startTwo();
    try {
      const path = own.file(1, { fresh: 'west' });
      await using replica = await own.start(path);
      await untilInForce(replica, 1);
      const goesOn = (): Promise<unknown> =>
        replica.expect([200, 201], 'PUT', '/v1/config/x', { body: 1, ...inNamespace('fresh') });
      await goesOn();

      writeFileSync(path, '{"version": 2, "ensembles": {}, "namespaces": {"fresh": "north"}}');
      await untilRefused(replica, /namespaces\.fresh: there is no ensemble "north" in the file/);
      await goesOn();
      own.file(1, { other: 'west' });
      await untilRefused(replica, /another file of that version is in force/);
      await goesOn();
      writeFileSync(
        path,
        JSON.stringify({ version: 2, ensembles: { west: { zookeeper: '127.0.0.1:1' } }, namespaces: {} }),
      );
      await untilRefused(replica, /says something else about the ensemble "west" than when this replica was started/);
      await goesOn();
      expect((await replica.call('GET', '/metrics')).body).toMatch(/^postern_ensemble_file_refused 1$/m);

      // Nobody has used it: it need not be closed before.
      own.file(2, { fresh: 'west', unused: 'west' });
      await untilInForce(replica, 2);
      expect(await reasonsOf(replica)).toEqual([]);
      await replica.expect(201, 'PUT', '/v1/config/x', { body: 1, ...inNamespace('unused') });
    } finally {
      await own[Symbol.asyncDispose]();
    }
  });
});
