/** `postern sidecar` with a gateway that is well: what it holds for the program, and what it answers. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FaultyGateway } from '../../conformance/faulty-gateway.js';
import { eventually, throughout } from '../../support/eventually.js';
import { startPair, type Pair } from '../../support/start-gateway.js';
import { startTcpProxy } from '../../support/zookeeper/tcp-proxy.js';
import { LONG_MS } from '../run-command.js';
import { startPod, type Asked, type Pod } from './pod.js';

let pair: Pair;
let dir: string;
beforeAll(async () => {
  pair = await startPair();
  dir = await mkdtemp(join(tmpdir(), 'postern-sidecar-'));
});
afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const start = (...words: string[]): Promise<Pod> => startPod(`${pair.a.url},${pair.b.url}`, words);
const untilLeads = (pod: Pod): Promise<number> =>
  eventually(`it leads: ${pod.sidecar.stderr}`, () => pod.leads(), { withinMs: LONG_MS });
const jsonOf = async (file: string): Promise<unknown> => JSON.parse(await readFile(file, 'utf8'));

describe('the lead', { timeout: LONG_MS }, () => {
  it('is answered, shown to others, and written to a file; the heir takes over when the program has ended', async () => {
    const file = join(dir, 'leader.json');
    await using one = await start('--elect', 'writer', '--value', 'one', '--label', 'pod-1');
    const token = await untilLeads(one);
    await using other = await start('--elect', 'writer', '--value', 'other', '--file', file);
    const leader = { value: 'one', label: 'pod-1', fencingToken: token };
    expect((await one.ask('/leader')).body).toMatchObject({ election: 'writer', leads: true, leader });
    expect((await one.ask('/leader')).body.leftMs).toBeGreaterThan(0);
    await eventually('the other one knows', async () => (await other.ask('/leader')).body.leader !== null);
    const standing = { election: 'writer', leads: false, leftMs: null, leader };
    expect(await other.ask('/leader')).toEqual({ status: 503, body: standing });
    expect(await jsonOf(file)).toEqual({ election: 'writer', leader });
    expect(await pair.b.expect(200, 'GET', '/v1/elections/writer')).toMatchObject({ leader: { value: 'one' } });

    await one.killProgram();
    expect(await untilLeads(other)).toBeGreaterThan(token);
    await eventually('the file is new', async () => (await readFile(file, 'utf8')).includes('"other"'));
    expect((await readdir(dir)).filter((name) => name.startsWith('.postern-'))).toEqual([]);
    const { status, body } = await one.ask('/leader');
    expect({ status, leads: body.leads }).toEqual({ status: 503, leads: false });
    expect((await one.ask('/me')).body).toMatchObject({
      health: { healthy: false },
      election: null,
      lease: { leftMs: null },
    });
  });

  it('goes to the heir at once when the program has ended, however seldom it is asked how it is', async () => {
    await using one = await start('--elect', 'crash', '--health-interval', '1h', '--ttl', '60s');
    const token = await untilLeads(one);
    await using other = await start('--elect', 'crash');
    await eventually('the other one stands', async () => {
      const { candidateCount } = await pair.b.expect(200, 'GET', '/v1/elections/crash');
      return candidateCount === 2;
    });
    await one.killProgram();
    expect(await untilLeads(other)).toBeGreaterThan(token);
  });

  it('is stood for again when the program was started anew, however seldom it is asked how it is', async () => {
    await using one = await start('--elect', 'again', '--health-interval', '1h');
    const token = await untilLeads(one);
    await one.killProgram();
    await eventually('it does not lead', async () => (await one.leads()) === undefined);
    await one.startProgram();
    expect(await untilLeads(one)).toBeGreaterThan(token);
  });

  it('is not stood for before the program is well', async () => {
    await using pod = await start('--elect', 'early', '--health', '{program}/not-there');
    const health = async (): Promise<unknown> => (await pod.ask('/me')).body.health;
    await eventually('it has answered', async () => JSON.stringify(await health()).includes('answered 404'));
    expect(await health()).toMatchObject({ healthy: false });
    expect(await pair.a.expect(200, 'GET', '/v1/elections/early')).toMatchObject({ candidateCount: 0 });
  });

  it('turns to 503 by the clock of the sidecar when no gateway answers any more', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
    try {
      await using pod = await startPod(`http://${proxy.connectString}`, ['--elect', 'cut-off']);
      const token = await untilLeads(pod);
      const lease = await pair.b.createLease({ ttlMs: 4_000 });
      const heir = pair.b
        .expect(200, 'POST', '/v1/elections/cut-off/campaign', { ...lease, body: { waitMs: 30_000 } })
        .then(async ({ fencingToken }: { fencingToken: number }) => ({ fencingToken, old: await pod.leads() }));
      await eventually('the heir stands', async () => {
        const { candidateCount } = await pair.b.expect(200, 'GET', '/v1/elections/cut-off');
        return candidateCount === 2;
      });
      proxy.suspend();
      const { fencingToken, old } = await heir;
      expect(fencingToken).toBeGreaterThan(token);
      expect(old).toBeUndefined();
      await pair.b.endLease(lease);
    } finally {
      await proxy.stop();
    }
  });

  it('is given up when somebody with the right to do so asks for it, and stood for again', async () => {
    await using pod = await start('--elect', 'revoked', '--on-lost', 'POST={program}/lost');
    const token = await untilLeads(pod);
    await pair.b.expect(200, 'POST', '/v1/elections/revoked/revoke', { body: { reason: 'maintenance' } });
    expect(
      await eventually('it leads again', async () => ((await pod.leads()) ?? 0) > token, { withinMs: LONG_MS }),
    ).toBe(true);
    expect(await pod.told()).toMatchObject([
      { event: 'lost', fencingToken: token, reason: expect.stringContaining('maintenance') },
    ]);
  });
});

describe('hooks', { timeout: LONG_MS }, () => {
  it('tell the program that it leads before others are told, and that it does not any more before it is resigned', async () => {
    const hooks = ['--on-elected', 'POST={program}/elected', '--on-lost', 'POST={program}/lost'];
    await using pod = await start('--elect', 'told', ...hooks);
    const fencingToken = await untilLeads(pod);
    expect(await pod.told()).toMatchObject([{ event: 'elected', election: 'told', fencingToken }]);
    await pod.answers({ '/healthz': 500 });
    await eventually('it was told', async () => (await pod.told()).length === 2);
    expect(await pod.told()).toMatchObject([
      { event: 'elected' },
      { event: 'lost', fencingToken, reason: 'the program is not well: answered 500' },
    ]);
    await eventually('it has resigned', async () => {
      const { candidateCount } = await pair.a.expect(200, 'GET', '/v1/elections/told');
      return candidateCount === 0;
    });
  });

  it('resign when the one for the lead fails or takes too long, and the next one leads', async () => {
    const lost = ['--on-lost', 'POST={program}/lost'];
    await using failing = await start('--elect', 'refused', '--on-elected', 'POST={program}/not-there', ...lost);
    const hanging = ['--on-elected', 'exec=sleep 600', '--hook-timeout', '100ms', ...lost];
    await using slow = await start('--elect', 'refused', ...hanging);
    await failing.sidecar.untilSays(/hook-failed.*answered 404/);
    await slow.sidecar.untilSays(/hook-failed.*sleep: it has run for 100 ms/);
    await using heir = await start('--elect', 'refused');
    await untilLeads(heir);
    for (const pod of [failing, slow]) {
      expect(await pod.leads()).toBeUndefined();
      expect(await pod.told()).toContainEqual(expect.objectContaining({ event: 'lost' }));
    }
  });

  it('run programs with the token in their environment, and end all that these have started', async () => {
    const written = join(dir, 'hook');
    const script = join(dir, 'hook.sh');
    await writeFile(
      script,
      `#!/bin/sh\necho "$POSTERN_EVENT $POSTERN_ELECTION $POSTERN_FENCING_TOKEN $1" >> ${written}\n`,
      {
        mode: 0o755,
      },
    );
    await using pod = await start(
      '--elect',
      'exec',
      '--on-elected',
      `exec=${script} now`,
      '--on-lost',
      `exec=${script} gone`,
    );
    const token = await untilLeads(pod);
    pod.sidecar.child.kill('SIGTERM');
    expect(await pod.sidecar.code()).toBe(0);
    expect(await readFile(written, 'utf8')).toBe(`elected exec ${token} now\nlost exec ${token} gone\n`);
  });
});

describe('locks and groups', { timeout: LONG_MS }, () => {
  it('holds a lock without token and heartbeat for longer than the TTL, and gives it back', async () => {
    await using pod = await start();
    const taken = await eventually('it is served', async () => {
      const asked = await pod.ask('/locks/one/acquire', { json: { waitMs: 0 } });
      return asked.status === 200 && asked;
    });
    const { fencingToken, holdId } = taken.body;
    expect(taken.body).toMatchObject({ name: 'one', leftMs: expect.any(Number) });
    await throughout('it is held', async () => (await pair.b.showLock('one')).holderCount === 1, { forMs: 4_000 });
    expect((await pod.ask('/locks/one')).body).toMatchObject({ holdId, fencingToken });
    expect((await pod.ask('/me')).body).toMatchObject({ holds: [{ kind: 'lock', name: 'one', holdId, fencingToken }] });
    expect(await pod.ask('/locks/one/acquire', { json: {} })).toMatchObject({
      status: 409,
      body: { code: 'lock-held' },
    });
    expect(await pod.ask('/locks/one/release', { json: { holdId: 'another' } })).toMatchObject({ status: 409 });
    expect(await pod.ask('/locks/one/release', { json: { holdId } })).toMatchObject({ status: 200 });
    expect((await pair.b.showLock('one')).holderCount).toBe(0);
    expect(await pod.ask('/locks/one')).toMatchObject({ status: 404 });
    expect(await pod.ask('/locks/one/release', { json: {} })).toMatchObject({
      status: 409,
      body: { code: 'not-holder' },
    });
  });

  it('releases a lock when it is asked again, after the gateway has refused that', async () => {
    await using gateway = await FaultyGateway.start(pair.a.url);
    await using pod = await startPod(gateway.url);
    const taken = await eventually('it is served', async () => {
      const asked = await pod.ask('/locks/refused/acquire', { json: {} });
      return asked.status === 200 && asked;
    });
    const { holdId } = taken.body;
    const release = (): Promise<Asked> => pod.ask('/locks/refused/release', { json: { holdId } });
    const answer = { status: 422, code: 'invalid', retryable: false, outcome: 'not-applied' };
    gateway.befall({ path: '/refused/release', times: 1, answer });
    expect(await release()).toMatchObject({ status: 422 });
    expect((await pair.b.showLock('refused')).holderCount).toBe(1);
    expect(await release()).toMatchObject({ status: 200 });
    expect((await pair.b.showLock('refused')).holderCount).toBe(0);
  });

  it('waits in line for it, and leaves the line when nobody waits for the answer any more', async () => {
    await using pod = await start();
    const lease = await pair.a.createLease({ ttlMs: 30_000 });
    await pair.a.acquire('line', lease);
    await eventually('it is well', async () => (await pod.ask('/me')).body.health.healthy);
    const left = new AbortController();
    const gone = pod.ask('/locks/line/acquire', { json: { waitMs: 60_000 }, signal: left.signal }).catch(() => 'gone');
    await pair.a.untilWaiting('line', 1);
    left.abort();
    expect(await gone).toBe('gone');
    await eventually('nobody waits', async () => (await pair.a.showLock('line')).waiterCount === 0);
    const waiting = pod.ask('/locks/line/acquire', { json: { waitMs: 60_000 } });
    await pair.a.untilWaiting('line', 1);
    await pair.a.release('line', lease);
    expect(await waiting).toMatchObject({ status: 200 });
    await pair.a.endLease(lease);
  });

  it('gives back locks, waits and memberships when the program is not well, and takes none until it is', async () => {
    await using pod = await start('--group', 'web,all', '--value', 'here');
    const members = async (): Promise<number> => (await pair.b.expect(200, 'GET', '/v1/groups/web')).memberCount;
    await eventually('it is a member', async () => (await members()) === 1);
    expect(await pair.b.expect(200, 'GET', '/v1/groups/all')).toMatchObject({ members: [{ value: 'here' }] });
    expect((await pod.ask('/me')).body.groups).toMatchObject([
      { name: 'web', member: expect.any(String) },
      { name: 'all' },
    ]);
    expect(await pod.ask('/locks/mine/acquire', { json: {} })).toMatchObject({ status: 200 });
    const waiting = pod.ask('/locks/mine/acquire', { json: { waitMs: 60_000 } });
    await pair.a.untilWaiting('mine', 1);
    pod.stopProgram();
    expect(await waiting).toMatchObject({ status: 503, body: { code: 'unhealthy' } });
    await eventually(
      'all is given back',
      async () => (await members()) === 0 && (await pair.a.showLock('mine')).holderCount === 0,
    );
    expect(await pod.ask('/locks/mine/acquire', { json: {} })).toMatchObject({
      status: 503,
      body: { code: 'unhealthy' },
    });
    expect((await pod.ask('/healthz')).status).toBe(200);
    pod.goOn();
    await eventually('it is a member again', async () => (await members()) === 1, { withinMs: LONG_MS });
    expect((await pod.ask('/me')).body.holds).toEqual([]);
  });

  it('gives everything back when it is told to end, while a program that is well goes on', async () => {
    await using pod = await start('--elect', 'ending', '--group', 'ending');
    await untilLeads(pod);
    expect(await pod.ask('/locks/ending/acquire', { json: {} })).toMatchObject({ status: 200 });
    pod.sidecar.child.kill('SIGTERM');
    expect(await pod.sidecar.ended).toEqual({ code: 0, signal: null });
    expect((await pair.a.showLock('ending')).holderCount).toBe(0);
    expect(await pair.a.expect(200, 'GET', '/v1/elections/ending')).toMatchObject({ candidateCount: 0 });
    expect(await pair.a.expect(200, 'GET', '/v1/groups/ending')).toMatchObject({ memberCount: 0 });
  });
});

describe('the configuration in files', { timeout: LONG_MS }, () => {
  it('is written before it is ready, replaced after each change, and the program is told', async () => {
    const [json, text] = [join(dir, 'settings.json'), join(dir, 'motd')];
    await pair.a.expect(201, 'PUT', '/v1/config/app/settings', { body: { port: 1 } });
    const render = [
      '--render',
      `app/settings=${json}`,
      '--render',
      `app/motd=${text}`,
      '--on-render',
      'POST={program}/rendered',
    ];
    await using pod = await start('--health', 'none', ...render);
    await eventually('the first is written', async () => ((await jsonOf(json)) as { port: number }).port === 1);
    expect(await pod.ask('/readyz')).toMatchObject({
      status: 503,
      body: { reasons: ['the key "app/motd" has not been rendered yet'] },
    });
    // What the gateway takes as it is cannot be read as what it says to be, and ends nothing.
    await pair.a.expect(201, 'PUT', '/v1/config/app/motd', { body: 'hello' });
    await pod.sidecar.untilSays(/app\/motd.*says that it is JSON/);
    const headers = { 'content-type': 'text/plain; charset=utf-8' };
    await pair.a.expect(200, 'PUT', '/v1/config/app/motd', { body: 'hello', headers });
    await eventually(`it is ready: ${pod.sidecar.stderr}`, async () => (await pod.ask('/readyz')).status === 200, {
      withinMs: LONG_MS,
    });
    expect(await readFile(text, 'utf8')).toBe('hello');
    await pair.b.expect(200, 'PUT', '/v1/config/app/settings', { body: { port: 2 } });
    await eventually('it is replaced', async () => ((await jsonOf(json)) as { port: number }).port === 2);
    await eventually('the program was told', async () => (await pod.told()).length > 0);
    // Of the change alone: what it finds when it starts it need not be told.
    expect(await pod.told()).toEqual([{ event: 'rendered', key: 'app/settings', file: json }]);
    await pair.a.expect(204, 'DELETE', '/v1/config/app/settings');
    await pod.sidecar.untilSays(/"no-key".*app\/settings/);
    expect(await jsonOf(json)).toEqual({ port: 2 });
  });
});

describe('who is answered', { timeout: LONG_MS }, () => {
  /** `fetch` does not let a program say another host. */
  const ask = (url: string, headers: Record<string, string>, method = 'GET', body = ''): Promise<Asked> =>
    new Promise((resolve, reject) => {
      const sent = request(url, { method, headers }, (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk.toString()));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }));
      });
      sent.on('error', reject);
      sent.end(body);
    });

  it('is the program, and no page of a browser', async () => {
    await using pod = await start('--elect', 'guarded', '--listen-probes', '127.0.0.1:0');
    await untilLeads(pod);
    const { port } = new URL(pod.url);
    const leader = `${pod.url}/leader`;
    expect(await ask(leader, { host: `localhost:${port}` })).toMatchObject({ status: 200 });
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', '10.0.0.1'])
      expect(await ask(leader, { host })).toMatchObject({ status: 421, body: { code: 'foreign-host' } });
    for (const headers of [{ origin: 'http://evil.example' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site' }])
      expect(await ask(leader, headers)).toMatchObject({ status: 403, body: { code: 'cross-origin' } });
    expect(await ask(`${pod.url}/locks/a/acquire`, { origin: 'http://evil.example' }, 'POST', '{}')).toMatchObject({
      status: 403,
    });
    // Probes and balancers may ask by any name, and see no more than these.
    expect(await ask(`${pod.probesUrl}/leader`, { host: 'pod-1.web' })).toMatchObject({ status: 200 });
    expect(await ask(`${pod.probesUrl}/healthz`, { host: '10.0.0.1' })).toMatchObject({ status: 200 });
    expect(await ask(`${pod.probesUrl}/readyz`, {})).toMatchObject({ status: 200 });
    for (const path of ['/me', '/locks/a', '/locks/a/acquire'])
      expect(await ask(`${pod.probesUrl}${path}`, {})).toMatchObject({ status: 404 });
  });

  it('is told which field is wrong, and no body is read without end', async () => {
    await using pod = await start();
    const acquire = '/locks/x/acquire';
    const refused = async (
      status: number,
      says: string,
      path: string,
      init: Parameters<Pod['ask']>[1],
    ): Promise<void> => {
      const asked = await pod.ask(path, init);
      expect(asked).toMatchObject({ status, body: { status, detail: expect.stringContaining(says) } });
    };
    await refused(422, 'waitMs', acquire, { json: { waitMs: -1 } });
    await refused(422, 'waitMs', acquire, { json: { waitMs: 1e9 } });
    await refused(422, '"waitMS"', acquire, { json: { waitMS: 1 } });
    await refused(422, 'holdId', '/locks/x/release', { json: { holdId: 1 } });
    await refused(422, 'a%2Fb', '/locks/a%2Fb/acquire', { json: {} });
    await refused(400, 'JSON object', acquire, { json: [1] });
    await refused(400, 'JSON object', acquire, { method: 'POST', body: '{' });
    await refused(413, '4096 bytes', acquire, { json: { waitMs: 'x'.repeat(5_000) } });
    await refused(405, 'only GET', '/leader', { json: {} });
    await refused(405, 'only POST', acquire, {});
    await refused(404, '/me', '/nothing', {});
  });
});
