/** `postern queue work` when things go wrong: each message has one job at a time, and the worker goes on. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { LONG_MS, runCommand, type Run } from './run-command.js';

const TTL = ['--ttl', '3s', '--json'];

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const push = (queue: string, ...bodies: string[]): Promise<unknown> =>
  pair.b.expect(201, 'POST', `/v1/queues/${queue}/messages`, { body: { messages: bodies.map((body) => ({ body })) } });

const work = (queue: string, words: readonly string[], script: string, url = pair.a.url): Run =>
  runCommand(['queue', 'work', queue, ...TTL, ...words, '--', 'sh', '-c', script], { url });

const done = (queue: string): Promise<unknown> =>
  eventually(
    `everything in ${queue} is done`,
    async () => {
      const { body } = await pair.b.call('GET', `/v1/queues/${queue}`);
      return body.depth === 0 && body.claimed === 0;
    },
    { withinMs: LONG_MS },
  );

async function end(run: Run): Promise<void> {
  run.child.kill('SIGTERM');
  await run.ended;
}

describe('postern queue work', { timeout: LONG_MS * 2 }, () => {
  it('begins the next job only when one whose lease was ended is dead', async () => {
    await push('stubborn', 'first', 'second');
    const script = `[ "$POSTERN_DELIVERIES" = 1 ] && [ "$(cat)" = first ] || exit 0
      trap "" TERM; echo "pid $$"; while :; do sleep 0.05; done`;
    const run = work('stubborn', [], script);
    await run.job();
    const { items } = await pair.b.expect(200, 'GET', '/v1/leases');
    for (const { leaseId } of items as { leaseId: string }[]) await pair.b.call('DELETE', `/v1/leases/${leaseId}`);
    await done('stubborn');
    expect(run.stderr).not.toContain('TypeError');
    expect(run.child.exitCode).toBeNull();
    await end(run);
  });

  it('waits before it tries a message of a group again, as in any queue', async () => {
    const queue = { order: 'grouped', maxDeliveries: 3, deadLetterQueue: 'groups.dead' };
    await pair.b.expect(201, 'PUT', '/v1/queues/groups', { body: queue });
    await pair.b.expect(201, 'POST', '/v1/queues/groups/messages', { body: { messages: [{ body: 1, group: 'a' }] } });
    const run = work('groups', ['--max', '3', '--retry-delay', '700ms'], 'date +%s%3N; exit 1');
    await run.ended;
    const times = run.stdout.split('\n').filter(Boolean).map(Number);
    expect(times).toHaveLength(3);
    for (const [i, time] of times.slice(1).entries()) expect(time - times[i]!).toBeGreaterThanOrEqual(700);
    expect(run.stderr).not.toContain('delayMs');
    expect((await pair.b.expect(200, 'GET', '/v1/queues/groups.dead')).depth).toBe(1);
  });

  it('works on several queues, the first before the second, and says which a message is from', async () => {
    await push('behind', 'two');
    await push('in-front', 'one');
    const run = work('in-front,behind', ['--max', '2'], 'echo "$POSTERN_QUEUE has $(cat)"');
    await run.ended;
    expect(run.stdout).toMatch(/in-front has one[^]*behind has two/);
    await done('in-front');
    await done('behind');
  });

  it('goes on when jobs have ended while no gateway answered, and their messages are delivered again', async () => {
    await push('cut-off', 'short', 'long');
    const directory = await mkdtemp(join(tmpdir(), 'postern-queue-work-'));
    const cut = join(directory, 'cut');
    const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
    const script = `read -r what; echo "begun $what"; [ "$POSTERN_DELIVERIES" = 1 ] || exit 0
      case $what in short) until [ -e ${cut} ]; do sleep 0.1; done;; long) exec sleep 30;; esac`;
    const run = work('cut-off', ['--concurrency', '2'], script, `http://${proxy.connectString}`);
    try {
      await run.untilSays(/begun short.*begun long|begun long.*begun short/s);
      proxy.suspend();
      await writeFile(cut, '');
      await run.untilSays(/"unsettled".*"failed"|"failed".*"unsettled"/s);
      proxy.heal();
      await done('cut-off');
      expect(run.child.exitCode).toBeNull();
    } finally {
      await end(run);
      await proxy.stop();
      await rm(directory, { recursive: true });
    }
  });

  it('takes no more messages than --max says, and gives back what it had claimed beyond that', async () => {
    await push('at-most', '1', '2', '3', '4', '5', '6');
    const run = work('at-most', ['--concurrency', '4', '--max', '2'], 'echo ran');
    expect(await run.code()).toBe(0);
    expect(run.stdout).toBe('ran\nran\n');
    expect(await pair.b.expect(200, 'GET', '/v1/queues/at-most')).toMatchObject({ depth: 4, claimed: 0 });
  });

  it('makes a message a dead letter at once when its job says so, and gives it back where there are none', async () => {
    const config = { order: 'fifo', maxDeliveries: 9, deadLetterQueue: 'hopeless.dead' };
    await pair.b.expect([200, 201], 'PUT', '/v1/queues/hopeless', { body: config });
    for (const queue of ['hopeless', 'hopeful']) {
      await push(queue, 'poison');
      const words = ['queue', 'work', queue, '--json', '--dead-letter-exit', '65', '--max', '1'];
      const run = runCommand([...words, '--', 'sh', '-c', 'exit 65'], { url: pair.a.url });
      expect(await run.code()).toBe(0);
      expect(run.stderr).toMatch(queue === 'hopeless' ? /goes to the dead letters: exit code 65/ : /deadLetterQueue/);
    }
    const { items } = await pair.a.expect(200, 'GET', '/v1/queues/hopeless.dead/messages');
    expect(items).toMatchObject([{ body: 'poison', deadLetter: { reason: 'exit code 65', deliveries: 1 } }]);
    expect(await pair.a.expect(200, 'GET', '/v1/queues/hopeless')).toMatchObject({ depth: 0, claimed: 0 });
    expect(await pair.a.expect(200, 'GET', '/v1/queues/hopeful')).toMatchObject({ depth: 1, claimed: 0 });
  });
});
