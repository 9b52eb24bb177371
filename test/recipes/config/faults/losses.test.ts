/**
 * Writes of the configuration whose answers are lost, that are repeated, and that depend on somebody who may have lost
 * it.
 */
import { expect, test } from 'vitest';
import { MARKS_MAX } from '../../../../src/recipes/marks.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { get, put, remove, write } from '../client.js';
import type { Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { STANDING_WATCHES, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { startCuttable } from '../../../support/scene.js';

const repeated = (id: string): { headers: Record<string, string> } => ({ headers: { 'idempotency-key': id } });

test('a write whose answer ZooKeeper gave and nobody got is found again by the replica that sent it (C32)', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  const first = await put(replica, 'found', '1');
  const etag = String(first.headers['etag']);
  const steps: [string, () => Promise<Reply>, object][] = [
    ['a new key', () => put(replica, 'a/new', 'x', { headers: { 'if-none-match': '*' } }), { status: 201 }],
    ['a new value', () => put(replica, 'found', '2', { headers: { 'if-match': etag } }), { status: 200 }],
    ['a deletion', () => remove(replica, 'found'), { status: 204 }],
    [
      'several',
      () => write(replica, [{ put: 'found', value: 3, ifAbsent: true }, { delete: 'a/new' }]),
      { status: 200 },
    ],
  ];
  for (const [what, send, expected] of steps) {
    const lost = proxy.loseReply(OPCODE.multi);
    expect(await send(), what).toMatchObject(expected);
    await lost;
  }
  expect(await get(replica, 'found')).toMatchObject({ status: 200, body: 3 });
  expect((await get(replica, 'a/new')).status).toBe(404);
  expect(await replica.metric('postern_config_writes_total', { outcome: 'written' })).toBe(5);
});

test('a write that never reached ZooKeeper is sent again, once', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica, proxy } = cuttable;
  const { headers } = await put(replica, 'sent', '1');
  const lost = proxy.loseRequest(OPCODE.multi);
  const reply = await put(replica, 'sent', '2', { headers: { 'if-match': String(headers['etag']) } });
  await lost;
  expect(reply).toMatchObject({ status: 200, body: { etag: versionAfter(headers['etag'], 1) } });
});

test('a write of unknown outcome answers its first outcome when the request is repeated elsewhere (C32)', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_500)) } });
  const { replica: a, proxy } = cuttable;
  const { headers } = await put(b, 'unknown', '1');
  const etag = String(headers['etag']);
  await put(b, 'other', 'x');
  const steps: [string, (client: typeof a) => Promise<Reply>, (reply: Reply) => void][] = [
    [
      'put',
      (client) => put(client, 'unknown', '2', { headers: { 'if-match': etag, 'idempotency-key': 'the-put' } }),
      ({ status, body }) => expect([status, body.etag]).toEqual([200, versionAfter(etag, 1)]),
    ],
    [
      'delete',
      (client) => remove(client, 'unknown', repeated('the-delete').headers),
      ({ status }) => expect(status).toBe(204),
    ],
    [
      'several',
      (client) =>
        write(client, [{ put: 'unknown', value: 3, ifAbsent: true }, { delete: 'other' }], repeated('both').headers),
      ({ body }) =>
        expect(body.items).toEqual([
          { put: 'unknown', status: 201, etag: versionAfter(etag, 3) },
          { delete: 'other', status: 204 },
        ]),
    ],
  ];
  for (const [what, send, check] of steps) {
    const cut = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
    const unknown = await send(a);
    await cut;
    expect(unknown, what).toMatchObject({
      status: 503,
      body: { code: 'outcome-unknown', outcome: 'unknown', retryable: true },
    });
    check(await send(b));
    check(await send(b));
    proxy.accept();
    await a.untilReady();
    await eventually('it is connected', () => a.gateway.context.control.connected);
    check(await send(a));
  }
  expect(await get(b, 'unknown')).toMatchObject({ body: 3, headers: { etag: `"${versionAfter(etag, 3)}"` } });
});

test('a repeated write does nothing again, however many others came in between, up to the limit (C32)', async () => {
  await using pair = await startPair();
  const first = await put(pair.a, 'repeated', 'mine', repeated('mine'));
  for (let i = 0; i < 31; i += 1) await put(pair.b, 'repeated', `other ${i}`, repeated(`other-${i}`));
  const again = await put(pair.b, 'repeated', 'mine', repeated('mine'));
  expect([again.status, again.body, again.headers['etag']]).toEqual([201, first.body, first.headers['etag']]);
  expect((await get(pair.a, 'repeated')).body).toBe('other 30');
  await remove(pair.a, 'repeated', repeated('gone').headers);
  expect((await remove(pair.b, 'repeated', repeated('gone').headers)).status).toBe(204);
  expect((await remove(pair.b, 'repeated', repeated('another').headers)).status).toBe(404);
  // The thirty-second has pushed it out: it is a new request.
  expect((await put(pair.b, 'repeated', 'mine', repeated('mine'))).body).not.toEqual(first.body);
});

test('one Idempotency-Key does not stand for two requests', async () => {
  await using pair = await startPair();
  await put(pair.a, 'keyed', 'one', repeated('k'));
  for (const reply of [
    await put(pair.b, 'keyed', 'two', repeated('k')),
    await put(pair.b, 'keyed', 'one', { type: 'text/html', ...repeated('k') }),
    await remove(pair.b, 'keyed', repeated('k').headers),
    await write(pair.b, [{ put: 'keyed', value: 'one' }], repeated('k').headers),
  ])
    expect(reply).toMatchObject({ status: 422, body: { code: 'invalid', field: 'Idempotency-Key' } });
  expect((await get(pair.a, 'keyed')).body).toBe('one');
  // Of another key it is another request.
  expect((await put(pair.b, 'other', 'two', repeated('k'))).status).toBe(201);
});

test(
  'many who write one key through two replicas with retries all get on, and each counts once',
  { timeout: scaled(60_000) },
  async () => {
    await using pair = await startPair();
    const replicas = [pair.a, pair.b];
    // No more than a key remembers: whoever comes late through one replica is still known from the other.
    const writers = Array.from({ length: MARKS_MAX }, async (_, i) => {
      // Each is sent through both replicas at once, as by a client that does not wait long.
      const both = await Promise.all(replicas.map((replica) => put(replica, 'busy', String(i), repeated(`w-${i}`))));
      expect(new Set(both.map(({ body }) => (body as { etag: string }).etag)).size).toBe(1);
      return both[0]?.body as { etag: string };
    });
    const etags = (await Promise.all(writers)).map(({ etag }) => etag);
    expect(new Set(etags).size).toBe(MARKS_MAX);
    const { headers } = await get(pair.a, 'busy');
    expect(String(headers['etag'])).toMatch(new RegExp(`-${MARKS_MAX - 1}"$`));
  },
);

test('streams and long polls are told what happened while their replica had no connection', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  for (const key of ['app/changed', 'app/deleted', 'app/same']) await put(b, key, 'before');
  await using prefix = await EventReader.open(a.url, '/v1/config?prefix=app/');
  await using key = await EventReader.open(a.url, '/v1/config/app/changed');
  await Promise.all([prefix.next(), key.next()]);
  const polling = get(a, 'app/new', '?waitMs=20000');
  await eventually('everybody waits', async () => (await a.metric('postern_watches')) >= 3 + STANDING_WATCHES);
  for (let round = 0; round < 2; round += 1) {
    proxy.refuse();
    proxy.cut();
    await eventually('it has no connection', () => !a.gateway.context.control.connected);
    const value = `after ${round}`;
    await put(b, 'app/changed', value);
    if (round === 0) await remove(b, 'app/deleted');
    if (round === 0) await put(b, 'app/new', value);
    proxy.accept();
    expect((await key.next()).data).toMatchObject({ valueBase64: Buffer.from(value).toString('base64') });
    const told = [await prefix.next(), ...(round === 0 ? [await prefix.next(), await prefix.next()] : [])];
    expect(told.map(({ event, data }) => `${event} ${(data as { key: string }).key}`).sort()).toEqual(
      round === 0 ? ['changed app/changed', 'changed app/new', 'deleted app/deleted'] : ['changed app/changed'],
    );
  }
  expect((await polling).body).toBe('after 0');
  expect(prefix.pending).toEqual([]);
});

function versionAfter(etag: unknown, writes: number): string {
  const [, czxid = '', version = ''] = /^"?(\d+)-(\d+)"?$/.exec(String(etag)) ?? [];
  return `${czxid}-${Number(version) + writes}`;
}
