/** `postern doctor`: what it finds wrong, step by step. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/command/doctor/report.js';
import { eventually } from '../support/eventually.js';
import { freePort } from '../support/free-port.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../support/start-zookeeper.js';
import { reasonsOf, startTwo, untilInForce } from '../ensembles/two.js';
import { LONG_MS, runCommand } from './run-command.js';

let replica: Replica;
beforeAll(async () => {
  replica = await startReplica();
});
afterAll(() => replica[Symbol.asyncDispose]());

interface Diagnosis {
  code: number | null;
  healthy: boolean;
  /** The last word of each step, with its state. */
  steps: string[];
  failed: Finding | undefined;
}

async function diagnose(urls: readonly string[], settings: Record<string, string> = {}): Promise<Diagnosis> {
  const words = ['doctor', '--url', urls.join(','), '--ttl', '3s', '--timeout', '2s', '--json'];
  const run = runCommand(words, { settings });
  const code = await run.code();
  const { healthy, findings } = JSON.parse(run.stdout) as { healthy: boolean; findings: Finding[] };
  const steps = findings.map(({ step, state }) => `${step.split(' ').at(-1)} ${state}`);
  return { code, healthy, steps, failed: findings.find(({ state }) => state === 'failed') };
}

const REACHED = ['name ok', 'connection ok', 'gateway ok'];

describe('postern doctor', { timeout: LONG_MS }, () => {
  it('finds nothing wrong, up to a lock, and leaves nothing behind', async () => {
    const { code, healthy, steps } = await diagnose([replica.url]);
    expect({ code, healthy }).toEqual({ code: 0, healthy: true });
    expect(steps).toEqual([...REACHED, 'credential ok', 'lease ok', 'heartbeat ok', 'lock ok', 'end ok']);
    expect(await replica.expect(200, 'GET', '/v1/leases')).toMatchObject({ items: [] });
  });

  it('tells people the same in words', async () => {
    const run = runCommand(['doctor'], { url: replica.url });
    expect(await run.code()).toBe(0);
    expect(run.stdout).toMatch(/^ok .* name: 127\.0\.0\.1 is an address\n/);
  });

  it('names the address at which nothing listens, and goes on with the other one', async () => {
    const shut = `http://127.0.0.1:${await freePort()}`;
    const { code, steps, failed } = await diagnose([shut, replica.url]);
    expect(code).toBe(69);
    expect(steps.slice(0, 2)).toEqual(['name ok', 'connection failed']);
    expect(steps.at(-1)).toBe('end ok');
    expect(failed?.message).toContain('ECONNREFUSED');
    expect(failed?.advice).toContain('nothing listens at that port');
  });

  it('says that a name has no address', async () => {
    const { code, failed } = await diagnose(['http://no-such-host.invalid:7070']);
    expect(code).toBe(69);
    expect(failed?.message).toContain('no-such-host.invalid has no address');
  });

  it('says that a port does not speak TLS', async () => {
    const { code, failed } = await diagnose([replica.url.replace('http:', 'https:')]);
    expect(code).toBe(69);
    expect(failed?.step).toMatch(/TLS$/);
    expect(failed?.advice).toContain('does not speak TLS');
  });

  it('tells a wrong key from one that lacks a scope', async () => {
    await using keys = await makeApiKeys({ reader: { default: ['read'] } });
    await using guarded = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const wrong = await diagnose([guarded.url], { POSTERN_API_KEY: 'wrong' });
    expect(wrong.code).toBe(77);
    expect(wrong.steps).toEqual([...REACHED, 'credential failed']);
    const reader = await diagnose([guarded.url], { POSTERN_API_KEY: keys.as('reader', guarded.url).key });
    expect(reader.code).toBe(77);
    expect(reader.steps).toEqual([...REACHED, 'credential ok', 'lease failed']);
    expect(reader.failed?.message).toContain('the scope "use" on leases');
  });

  it('says no more of a key than it knows where the gateway has none', async () => {
    const run = runCommand(['doctor'], { url: replica.url, settings: { POSTERN_API_KEY: 'foo' } });
    expect(await run.code()).toBe(0);
    expect(run.stdout).toContain('credential: the credential is accepted, or none is asked for;');
  });

  it('says what is away of a gateway that is ready', async () => {
    await using two = await startTwo();
    await using gateway = await two.start(two.file(1, { orders: 'west' }));
    await untilInForce(gateway, 1);
    two.west.pause();
    try {
      await eventually('it has been away for long enough', async () => (await reasonsOf(gateway)).length > 0, {
        withinMs: LONG_MS,
      });
      const run = runCommand(['doctor'], { url: gateway.url });
      expect(await run.code(), run.stdout).toBe(0);
      expect(run.stdout).toMatch(/^warning .* gateway: it is ready; Ensemble "west": ZooKeeper has been away/m);
    } finally {
      two.west.resume();
    }
  });

  it('says that the gateway cannot reach its ZooKeeper', async () => {
    await using zookeeper = await startZooKeeper();
    await using cut = await startReplica({ zookeeper: zookeeper.connectString, root: freshRoot() });
    zookeeper.pause();
    try {
      const { code, steps, failed } = await diagnose([cut.url]);
      expect(code).toBe(75);
      expect(steps.at(-1)).toMatch(/^(gateway|lease) failed$/);
      expect(failed?.advice).toContain('ZooKeeper');
    } finally {
      zookeeper.resume();
    }
  });
});
