/** `postern export` and `import`: what a namespace keeps survives the loss of the whole ensemble. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { configure, peek, pop, push } from '../recipes/queue/client.js';
import { eventually } from '../support/eventually.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { startPair, startReplica, type Replica } from '../support/start-gateway.js';
import { startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { LONG_MS, runCommand, type Options } from './run-command.js';

type Line = Record<string, unknown> & { kind: string };

const MANY = 450;

async function output(url: string, words: readonly string[], options: Options = {}): Promise<string> {
  const run = runCommand(words, { url, ...options });
  expect(await run.code(), run.stderr).toBe(0);
  return run.stdout;
}

/** What an export prints that has found nothing. */
async function nothing(url: string, words: readonly string[] = []): Promise<string> {
  const run = runCommand(['export', ...words], { url });
  expect(await run.code(), run.stderr).toBe(1);
  return run.stdout;
}

function linesOf(backup: string): Line[] {
  return backup
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

/** What must be the same after an import: an ETag is of one ensemble, and the checksum is of the ETags too. */
function itemsOf(backup: string): Line[] {
  return linesOf(backup)
    .slice(1, -1)
    .map(({ etag: _, ...item }) => item as Line);
}

function saved(backup: string): string {
  const file = join(mkdtempSync(join(tmpdir(), 'postern-backup-')), 'backup.jsonl');
  writeFileSync(file, backup);
  return file;
}

/** What an import says at its end. */
async function summaryOf(url: string, words: readonly string[]): Promise<Record<string, unknown>> {
  const lines = (await output(url, ['import', ...words, '--json'])).trim().split('\n');
  return JSON.parse(lines.at(-1) ?? '') as Record<string, unknown>;
}

/** Something of each kind. */
async function fill(replica: Replica): Promise<void> {
  await replica.expect(201, 'PUT', '/v1/config/app/json', { body: { deep: [1, 'ä\u2028'] } });
  await replica.expect(200, 'POST', '/v1/config', {
    body: { operations: [{ put: 'app/bytes', valueBase64: '/w==', contentType: 'image/x' }] },
  });
  await replica.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 42 } });
  await replica.expect(200, 'POST', '/v1/counters/below/add', { body: { by: -7 } });
  const members = [
    { id: 'a', labels: ['fast'], data: { port: 1 } },
    { id: 'b', drain: true },
  ];
  await replica.expect(201, 'PUT', '/v1/pools/gpus', { body: { members, quarantineMs: 1_000 } });
  await replica.expect(201, 'PUT', '/v1/pools/slots', { body: { of: 3 } });
  const nightly = { cron: '0 3 * * *', timeZone: 'Europe/Berlin', to: { queue: 'jobs', body: [1] }, misfire: 'once' };
  await replica.expect(201, 'PUT', '/v1/schedules/nightly', { body: nightly });
  await configure(replica, 'ranked', { order: 'priority', maxDeliveries: 1, deadLetterQueue: 'ranked.dead' });
  await push(replica, 'ranked', [
    { body: 'late', priority: 900 },
    { body: 'soon', priority: 1, attributes: { of: 'x' } },
    { body: 'poison', priority: 0 },
  ]);
  const lease = await replica.createLease({ ttlMs: 60_000 });
  const claimed = async (queue: string): Promise<string> => {
    const { items } = (await replica.expect(200, 'POST', `/v1/queues/${queue}/claim`, lease)) as {
      items: { claimId: string }[];
    };
    return items[0]?.claimId ?? '';
  };
  const nack = { claimIds: [await claimed('ranked')], reason: 'broken' };
  await replica.expect(200, 'POST', '/v1/queues/ranked/nack', { ...lease, body: nack });
  await configure(replica, 'grouped', { order: 'grouped' });
  await push(
    replica,
    'grouped',
    ['a', 'b', 'a'].map((group, body) => ({ body, group })),
  );
  await claimed('grouped');
  await configure(replica, 'timed', { maxDepth: 4, dedupWindowMs: 0 });
  await push(replica, 'timed', [{ body: 1, delayMs: 3_600_000 }, { body: 2, expiresInMs: 7_200_000 }, { body: 3 }]);
  await replica.expect(201, 'POST', '/v1/queues/timed/messages/raw', {
    body: 'as it is',
    headers: { 'content-type': 'text/x' },
  });
  await replica.expect(204, 'POST', '/v1/queues/timed/pause');
  await push(
    replica,
    'many',
    Array.from({ length: MANY }, (_, body) => ({ body, attributes: { long: 'x'.repeat(50) } })),
  );
}

describe('postern import', { timeout: 3 * LONG_MS }, () => {
  it('brings everything back after the loss of the ensemble, once, also when it was interrupted', async () => {
    let backup: string;
    {
      await using lost = await startZooKeeper();
      await using replica = await startReplica({ zookeeper: lost.connectString });
      await fill(replica);
      backup = await output(replica.url, ['export']);
    } // its data are deleted
    const kinds = new Set(itemsOf(backup).map(({ kind }) => kind));
    expect([...kinds]).toEqual(['config', 'counter', 'pool', 'queue', 'message', 'schedule']);
    expect(itemsOf(backup).filter(({ kind }) => kind === 'message')).toHaveLength(MANY + 10);
    expect(itemsOf(backup)).toContainEqual(
      expect.objectContaining({
        body: 'poison',
        deadLetter: expect.objectContaining({ queue: 'ranked', reason: 'broken', priority: 0 }) as object,
      }),
    );

    await using zookeeper = await startZooKeeper();
    await using replica = await startReplica({ zookeeper: zookeeper.connectString });
    expect(itemsOf(await nothing(replica.url))).toEqual([]);
    const file = saved(backup);
    await output(replica.url, ['import', file, '--dry-run']);
    expect(itemsOf(await nothing(replica.url))).toEqual([]);

    const half = runCommand(['import'], { url: replica.url, stdin: backup.slice(0, Math.floor(backup.length / 2)) });
    expect(await half.code()).toBe(64);
    expect(half.stderr).toMatch(/line \d+/);
    const killed = runCommand(['import', file], { url: replica.url });
    await killed.untilSays(/restored|queue \w+: \d+ messages/);
    killed.child.kill('SIGKILL');
    await killed.ended;
    expect(await summaryOf(replica.url, [file])).toMatchObject({ event: 'imported', replaced: 0, kept: 0 });
    expect(itemsOf(await output(replica.url, ['export']))).toEqual(itemsOf(backup));

    // What somebody has taken since does not come back, and what was changed is kept.
    expect(await pop(replica, 'many', { max: 5 })).toHaveLength(5);
    await replica.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 1 } });
    expect(await summaryOf(replica.url, [file])).toMatchObject({ created: 0, replaced: 0, kept: 1 });
    expect(await replica.expect(200, 'GET', '/v1/queues/many')).toMatchObject({ depth: MANY - 5 });
    expect(await replica.expect(200, 'GET', '/v1/counters/visits')).toMatchObject({ value: 43 });
    await output(replica.url, ['import', file, '--overwrite', '--kinds', 'counters']);
    expect(await replica.expect(200, 'GET', '/v1/counters/visits')).toMatchObject({ value: 42 });
  });

  it('leaves out the messages that are there, in whatever state and queue, and brings back what was taken', async () => {
    await using replica = await startReplica();
    await fill(replica);
    await push(replica, 'timed', [{ body: 'gone', expiresInMs: 1 }]);
    const backup = await output(replica.url, ['export']);
    const file = saved(backup);
    expect(await summaryOf(replica.url, [file])).toMatchObject({ created: 0, replaced: 0, kept: 0 });
    expect(itemsOf(await output(replica.url, ['export']))).toEqual(itemsOf(backup));
    await replica.expect(200, 'POST', '/v1/queues/ranked.dead/redrive', { body: { to: 'many' } });
    const taken = await pop(replica, 'many', { max: 3 });
    await push(replica, 'many', [{ body: 'new' }]);
    expect(await summaryOf(replica.url, [file])).toMatchObject({ created: 3, replaced: 0, kept: 0 });
    const ids = (await peek(replica, 'many')).map(({ id }) => id);
    expect(ids.slice(-3)).toEqual(taken.map(({ id }) => id));
    expect([ids.length, new Set(ids).size]).toEqual([MANY + 2, MANY + 2]);
    expect(await peek(replica, 'ranked.dead')).toEqual([]);
  });

  it('goes on where it was interrupted, although others have pushed and popped since', async () => {
    await using pair = await startPair();
    const bodies = Array.from({ length: MANY }, (_, body) => ({ body }));
    await push(pair.a, 'many', bodies);
    const file = saved(await output(pair.a.url, ['export']));
    await pair.a.expect(204, 'DELETE', '/v1/queues/many?force=true');
    const killed = runCommand(['import', file], { url: pair.a.url });
    await killed.untilSays(/queue many: \d+ messages/);
    killed.child.kill('SIGKILL');
    await killed.ended;
    await pop(pair.b, 'many', { max: 2 });
    await push(pair.b, 'many', [{ body: 'new' }]);
    await output(pair.b.url, ['import', file]);
    const found = await peek(pair.a, 'many');
    expect(found.map(({ body }) => body as unknown)).toContain('new');
    expect([found.length, new Set(found.map(({ id }) => id)).size]).toEqual([MANY - 1, MANY - 1]);
  });

  it('says with --dry-run what it does then, and of how many messages it cannot know that', async () => {
    await using replica = await startReplica();
    await fill(replica);
    const file = saved(await output(replica.url, ['export']));
    const both = async (...options: string[]): Promise<[object[], object[]]> => {
      const words = ['import', file, '--namespace', 'other', '--json', ...options];
      const dry = linesOf(await output(replica.url, [...words, '--dry-run']));
      return [dry, linesOf(await output(replica.url, words))];
    };
    // What is asked for at once is told as it is answered.
    const told = (lines: readonly object[]): string[] =>
      lines.map((line) => JSON.stringify({ ...line, dryRun: undefined, unsure: undefined })).sort();
    const [dry, real] = await both();
    expect(told(dry)).toEqual(told(real));
    expect(dry.at(-1)).toMatchObject({ replaced: 0, same: 0, kept: 0, unsure: 0 });
    const [dryAgain, again] = await both();
    expect(told(dryAgain)).toEqual(told(again));
    expect(again.at(-1)).toMatchObject({ created: 0, replaced: 0, kept: 0 });

    const other = { headers: { namespace: 'other' } };
    await replica.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 1 }, ...other });
    await replica.expect(200, 'PUT', '/v1/config/app/json', { body: 2, ...other });
    await replica.expect(204, 'POST', '/v1/queues/timed/resume', other);
    const [dryKept, kept] = await both();
    expect(told(dryKept)).toEqual(told(kept));
    expect(kept.at(-1)).toMatchObject({ created: 0, replaced: 0, kept: 3 });
    expect(await replica.expect(200, 'GET', '/v1/queues/timed', other)).toMatchObject({ paused: false });
    const [dryOver, over] = await both('--overwrite');
    expect(told(dryOver)).toEqual(told(over));
    expect(over.at(-1)).toMatchObject({ created: 0, replaced: 3, kept: 0 });
    expect(await replica.expect(200, 'GET', '/v1/queues/timed', other)).toMatchObject({ paused: true });

    // Only the gateway knows that it has brought them back before.
    await replica.expect(200, 'POST', '/v1/queues/many/pop', { body: { max: 2 }, ...other });
    const [dryTaken, taken] = await both();
    expect(dryTaken.at(-1)).toMatchObject({ created: 2, unsure: 2 });
    expect(taken.at(-1)).toMatchObject({ created: 0 });
    const text = await output(replica.url, ['import', file, '--namespace', 'other', '--dry-run']);
    expect(text).toMatch(/2 created, .*; 2 of these are messages that .* cannot be seen/);
  });

  it('says that what is no regular file cannot be read twice, and writes nothing of it', async () => {
    await using replica = await startReplica();
    await replica.expect(201, 'PUT', '/v1/config/app/key', { body: 1 });
    const file = saved(await output(replica.url, ['export']));
    await replica.expect(204, 'DELETE', '/v1/config/app/key');
    const piped = runCommand(['import'], { url: replica.url, through: ['bash', '-c', `"$@" <(cat ${file})`, 'bash'] });
    for (const run of [piped, runCommand(['import', dirname(file)], { url: replica.url })]) {
      expect([await run.code(), run.stdout]).toEqual([64, '']);
      expect(run.stderr).toMatch(/FILE "\/\S+" cannot be read: it must be a regular file/);
    }
    expect((await replica.call('GET', '/v1/config/app/key')).status).toBe(404);
    await output(replica.url, ['import', file]);
    await replica.expect(200, 'GET', '/v1/config/app/key');
  });

  it('refuses a file that was cut off or changed, and writes nothing of it', async () => {
    await using pair = await startPair();
    await pair.a.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 42 } });
    const backup = await output(pair.a.url, ['export']);
    const cut = `${backup.trim().split('\n').slice(0, -1).join('\n')}\n`;
    for (const bad of [
      cut,
      backup.replace('42', '43'),
      `${backup}${backup}`,
      backup.replace('postern-export', 'x'),
      '',
    ]) {
      const run = runCommand(['import', saved(bad), '--overwrite'], { url: pair.a.url });
      expect(await run.code(), run.stderr).toBe(64);
    }
    expect(await pair.a.expect(200, 'GET', '/v1/counters/visits')).toMatchObject({ value: 42 });
  });
});

describe('postern import', { timeout: 2 * LONG_MS }, () => {
  const OTHER = { headers: { namespace: 'other' } };

  it('puts what has become due since the export behind what was ready', async () => {
    await using replica = await startReplica();
    await push(replica, 'work', [{ body: 'late', delayMs: scaled(4_000) }, { body: 'first' }, { body: 'second' }]);
    const backup = await output(replica.url, ['export']);
    const dueAt = Date.parse(String(itemsOf(backup).find(({ body }) => body === 'late')?.['dueAt']));
    expect(dueAt).toBeGreaterThan(0);
    await eventually('it is due', () => Date.now() > dueAt + 100, { withinMs: LONG_MS });
    await output(replica.url, ['import', saved(backup), '--namespace', 'other']);
    const shown = (await replica.expect(200, 'GET', '/v1/queues/work/messages', OTHER)) as { items: Line[] };
    expect(shown.items.map(({ body }) => body)).toEqual(['first', 'second', 'late']);
  });

  it('brings values that are too much for one request', async () => {
    await using replica = await startReplica();
    const numbers = Array.from({ length: 19_000 }, (_, i) => i % 10);
    for (let i = 0; i < 6; i += 1) await replica.expect(201, 'PUT', `/v1/config/app/${i}`, { body: numbers });
    const nested = `${'['.repeat(63)}${']'.repeat(63)}`;
    await replica.expect(201, 'PUT', '/v1/config/app/nested', { body: JSON.parse(nested) as unknown });
    const backup = await output(replica.url, ['export']);
    expect(await summaryOf(replica.url, [saved(backup), '--namespace', 'other'])).toMatchObject({ created: 7 });
    expect(itemsOf(await output(replica.url, ['export', '--namespace', 'other']))).toEqual(itemsOf(backup));
  });

  it('brings no messages to a queue that runs and was paused, as one that it had made when it was killed', async () => {
    await using replica = await startReplica();
    await push(replica, 'work', [{ body: 1 }]);
    await replica.expect(204, 'POST', '/v1/queues/work/pause');
    const { config } = await replica.expect(200, 'GET', '/v1/queues/work');
    const words = [saved(await output(replica.url, ['export'])), '--namespace', 'other'];
    await replica.expect(201, 'PUT', '/v1/queues/work', { body: config, ...OTHER });
    expect(await summaryOf(replica.url, words)).toMatchObject({ created: 0, kept: 2 });
    await replica.expect(204, 'POST', '/v1/queues/work/pause', OTHER);
    expect(await summaryOf(replica.url, words)).toMatchObject({ created: 1, kept: 0 });
    expect(await replica.expect(200, 'GET', '/v1/queues/work', OTHER)).toMatchObject({ paused: true, depth: 1 });
  });

  it('makes no queue that was paused for who may not pause it', async () => {
    await using keys = await makeApiKeys({
      root: '*',
      writer: { default: ['read', 'use'], other: ['read', 'use'] },
    });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using root = keys.as('root', replica.url);
    await root.expect(201, 'POST', '/v1/queues/work/messages', { body: { messages: [{ body: 1 }] } });
    await root.expect(204, 'POST', '/v1/queues/work/pause');
    const as = (id: string): Options => ({ settings: { POSTERN_API_KEY: keys.as(id, replica.url).key } });
    const file = saved(await output(replica.url, ['export'], as('root')));
    const words = ['import', file, '--namespace', 'other'];
    expect(await runCommand(words, { url: replica.url, ...as('writer') }).code()).toBe(77);
    await root.expect(404, 'GET', '/v1/queues/work', OTHER);
    await output(replica.url, words, as('root'));
    expect(await root.expect(200, 'GET', '/v1/queues/work', OTHER)).toMatchObject({ paused: true, depth: 1 });
  });
});

describe('postern export', { timeout: 3 * LONG_MS }, () => {
  it('prints of each item a state that there was, while others write', async () => {
    await using pair = await startPair();
    const write = (value: number): Promise<unknown> =>
      pair.b.expect(200, 'POST', '/v1/config', {
        body: { operations: ['one', 'other'].map((put) => ({ put, value })) },
      });
    await write(0);
    await push(
      pair.a,
      'work',
      Array.from({ length: 300 }, (_, body) => ({ body })),
    );
    await push(pair.a, 'work', [{ body: 'due soon', delayMs: 1 }]);
    const run = runCommand(['export'], { url: pair.a.url });
    let over = false;
    void run.ended.then(() => (over = true));
    let last = 0;
    do {
      last += 1;
      await write(last);
      await pair.b.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 1 } });
      await push(pair.b, 'work', [{ body: 'new' }]);
    } while (!over);
    expect(await run.code(), run.stderr).toBe(0);
    const items = itemsOf(run.stdout);
    const [one, other] = items.filter(({ kind }) => kind === 'config');
    expect(one?.['value']).toBe(other?.['value']);
    expect(one?.['value']).toBeLessThanOrEqual(last);
    for (const { value } of items.filter(({ kind }) => kind === 'counter')) expect(value).toBeLessThanOrEqual(last);
    const messages = items.filter(({ kind }) => kind === 'message');
    const bodies = messages.map(({ body }) => body).filter((body) => body !== 'new');
    expect(bodies.filter((body) => body !== 'due soon')).toEqual(Array.from({ length: 300 }, (_, body) => body));
    expect(bodies).toContain('due soon');
    expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length);
    const left = await peek(pair.a, 'work');
    expect(left.filter(({ state, deliveries }) => state === 'claimed' || deliveries > 0)).toEqual([]);
  });

  it('ends with 73 when its output could not be written whole, and says why', async () => {
    await using replica = await startReplica();
    const full = runCommand(['export'], {
      url: replica.url,
      through: ['sh', '-c', 'exec "$@" > /dev/full', 'sh'],
    });
    expect(await full.code()).toBe(73);
    expect(full.stderr).toMatch(/^postern: the output was not written whole: ENOSPC: no space left on device.*\n$/);
    const unread = runCommand(['export'], { url: replica.url });
    unread.child.stdout?.destroy();
    expect(await unread.code()).toBe(73);
    expect(unread.stderr).toBe('postern: the output was not written whole: nobody reads it any more\n');
  });

  it('ends with 1 when there is nothing, so that no earlier backup is replaced, and prints a whole backup', async () => {
    await using replica = await startReplica();
    await replica.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 1 } });
    for (const words of [
      ['--namespace', 'mistyped'],
      ['--kinds', 'queues'],
    ]) {
      const file = saved(await nothing(replica.url, words));
      expect(await summaryOf(replica.url, [file])).toMatchObject({ event: 'imported', created: 0 });
    }
    const run = runCommand(['export', '--namespace', 'mistyped', '--json'], { url: replica.url });
    expect(await run.code()).toBe(1);
    expect(JSON.parse(run.stderr)).toMatchObject({ event: 'exported', counts: {} });
  });

  it('refuses kinds that there are not', async () => {
    const run = runCommand(['export', '--kinds', 'config,locks']);
    expect(await run.code()).toBe(64);
    expect(run.stderr).toContain('--kinds has "locks"');
  });
});
