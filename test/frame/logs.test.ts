/** What the log says of a healthy day: a line for each request, nothing at level error, and no secret. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openApi } from '../../src/http/contract/openapi.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { eventually } from '../support/eventually.js';
import { runLog } from '../support/run-log.js';
import { startPair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { liveADay } from '../support/whole-day.js';
import { leaseBehind } from '../support/scene.js';

const secret = (): string => randomBytes(24).toString('hex');

/** They remove nodes of other programs, of which this day has none. */
const OF_FOREIGN_NODES = ['breakReadWriteLock', 'breakElection', 'breakSemaphore'];

/** Each request of the day with what its line says. */
function expectLines(requests: ReturnType<typeof runLog.lines>): void {
  const served = new Set(requests.filter(({ outcome }) => outcome === 'done').map(({ operation }) => operation));
  expect(
    openApi()
      .operations.map(({ operationId }) => operationId)
      .filter((id) => !served.has(id) && !OF_FOREIGN_NODES.includes(id)),
  ).toEqual([]);
  for (const line of requests) {
    expect(line).toMatchObject({
      traceId: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
      method: expect.any(String) as string,
      route: expect.any(String) as string,
      status: expect.any(Number) as number,
      outcome: expect.any(String) as string,
      durationMs: expect.any(Number) as number,
    });
  }
  expect(requests.find(({ outcome }) => outcome === 'draining')).toMatchObject({
    operation: 'acquireLock',
    route: '/v1/locks/{name}/acquire',
    name: 'busy',
    namespace: 'default',
    principal: 'ops',
    status: 503,
    waits: 'answer',
  });
  expect(requests.find(({ delivered }) => delivered === false)).toMatchObject({
    name: 'busy',
    waits: 'answer',
    status: 499,
  });
  expect(requests.find(({ operation }) => operation === 'watchQueue')).toMatchObject({ waits: 'stream' });
  expect(requests.find(({ status }) => status === 401)).toMatchObject({ outcome: 'unauthenticated' });
  expect(requests.find(({ operation }) => operation === 'readiness')).toMatchObject({ level: 'debug' });
}

describe('a healthy day over two replicas', () => {
  test(
    'has a line for each request, none at level error, and no secret in any',
    { timeout: scaled(120_000) },
    async () => {
      const kept = { message: secret(), value: secret(), data: secret() };
      const password = secret();
      const sealing = randomBytes(32);
      await using keys = await makeApiKeys({ ops: '*' });
      await using pair = await startPair({
        settings: {
          POSTERN_AUTH_FILE: keys.file,
          POSTERN_ZOOKEEPER_AUTH: `postern:${password}`,
          POSTERN_LEASE_KEYS: sealing.toString('base64'),
        },
      });
      await using a = keys.as('ops', pair.a.url);
      await using b = keys.as('ops', pair.b.url);
      for (const value of [password, ...Object.values(kept), a.key, sealing.toString('hex')]) runLog.keepOut(value);
      runLog.keepOut(sealing.toString('base64url'));

      await liveADay([a, b], { authorization: `Bearer ${a.key}` }, kept);

      // The session, the password and the secret of a lease, in every spelling.
      const lease = await a.createLease();
      const { sessionId, sessionPassword, secret: leaseSecret } = (await leaseBehind(pair.a, lease)).grant;
      for (const bytes of [sessionPassword, leaseSecret]) {
        for (const encoding of ['hex', 'base64url'] as const) runLog.keepOut(bytes.toString(encoding));
      }
      // A client that leaves while it waits, one whose credential is none, and a replica that goes.
      await a.hold('busy', lease);
      const patient = await b.createLease();
      const leaving = new AbortController();
      const left = b.acquire('busy', patient, { waitMs: 20_000 }, { signal: leaving.signal }).catch(() => 'left');
      await b.untilWaiting('busy', 1);
      leaving.abort();
      expect(await left).toBe('left');
      expect((await pair.a.call('GET', '/v1/locks/busy')).status).toBe(401);
      const waiters = (): Promise<number> => pair.b.metric('postern_waiters', { kind: 'lock' });
      await eventually('it waits no more', async () => (await waiters()) === 0);
      const waiting = b.acquire('busy', patient, { waitMs: 20_000, requestId: 'again' });
      await eventually('it waits', async () => (await waiters()) === 1);
      const stopped = pair.b.gateway.stop();
      expect((await waiting).body).toMatchObject({ code: 'draining' });
      await stopped;
      await a.endLease(lease);

      const lines = runLog.lines();
      expect(lines.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
      expect(JSON.stringify(lines)).not.toContain(sessionId.toString('hex'));
      expect(JSON.stringify(lines)).not.toContain(String(sessionId.readBigInt64BE()));
      expectLines(lines.filter(({ msg }) => msg === 'request'));
    },
  );
});

describe('the search for secrets', () => {
  test('finds one that is there, also inside of other words', () => {
    const token = `v1.${secret()}`;
    runLog.learn({ 'lease-token': token }, '');
    const answered = secret();
    runLog.learn({}, JSON.stringify({ leaseToken: answered }));
    expect(() => runLog.search([`{"msg":"opened","url":"http://x/?token=${token}&x"}`])).toThrow(
      'a secret is in the log',
    );
    expect(() => runLog.search([`{"msg":"sealed ${answered}"}`])).toThrow(answered);
    expect(() => runLog.search([`{"msg":"opened ${secret()}"}`])).not.toThrow();
  });
});
