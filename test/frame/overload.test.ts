/**
 * The door of the frame under overload: what is refused, what never is, in which words, and that it opens again.
 * Nothing here is slow by chance.
 */
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Handler } from '../../src/http/frame/exchange.js';
import { openApi } from '../../src/http/contract/openapi.js';
import { eventually } from '../support/eventually.js';
import { expectContract } from '../support/http/contract.js';
import { free, parseAnswer, rawConnection, send, sendRaw, type RawAnswer, type RawConnection } from './client.js';
import { startFrame, type Frame, type FrameOptions } from './harness.js';

const DELAY_MS = 40;
/** Several of these are more than what a turn has for new work. */
const WORK_MS = 15;
const AT_ONCE = 14;
/** So many a turn takes on whatever the time. */
const TAKEN_MIN = 8;
const look = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n`;
const LOOK = look('/v1/locks/a');
const BEAT =
  'POST /v1/leases/self/heartbeat HTTP/1.1\r\nHost: localhost\r\nLease-Token: t\r\nContent-Length: 0\r\n\r\n';

/** Keeps the event loop of this process from everything else. */
function busy(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until;);
}

const working: Handler = (exchange) => {
  busy(WORK_MS);
  return free(exchange);
};

const beating: Handler = () =>
  Promise.resolve({
    status: 200,
    body: { leaseId: 'l1', ttlMs: 5000, expiresAt: '2026-01-31T09:30:15.000Z', revocations: [], lost: [] },
  });

function start(options: FrameOptions = {}): Promise<Frame> {
  return startFrame({
    routes: { showLock: working, heartbeatLease: beating },
    ...options,
    config: { overloadDelayMs: DELAY_MS, ...options.config },
  });
}

/** Turns that are late one after the other: more than it takes. */
const LATE_TURNS = 6;

async function beLate(): Promise<void> {
  for (let turn = 0; turn < LATE_TURNS; turn += 1) {
    busy(DELAY_MS + 30);
    await setImmediate();
  }
}

/**
 * @returns whether `condition` was so in any turn of the event loop in the next `ms`, and how long the longest of them
 *   took
 */
async function turns(ms: number, condition: () => Promise<boolean>): Promise<{ longestMs: number; seen: boolean }> {
  let [longestMs, seen, last] = [0, false, performance.now()];
  for (const until = last + ms; last < until;) {
    await setImmediate();
    seen ||= await condition();
    longestMs = Math.max(longestMs, performance.now() - last);
    last = performance.now();
  }
  return { longestMs, seen };
}

/** Until the replica knows. */
async function overload(frame: Frame): Promise<void> {
  await eventually('it is overloaded', async () => {
    await beLate();
    return (await overloaded(frame, 'event_loop')) === 1;
  });
}

async function overloaded(frame: Frame, late: string): Promise<number> {
  const { values } = await frame.metrics.overloaded.get();
  return values.find(({ labels }) => labels.late === late)?.value ?? NaN;
}

async function refusals(frame: Frame): Promise<number> {
  const { values } = await frame.metrics.overloadRefusalsTotal.get();
  return values.reduce((sum, { value }) => sum + value, 0);
}

/** Requests that have all come before any of them is read: one turn's worth. */
async function crowd({ url }: Frame, requests = Array.from({ length: AT_ONCE }, () => LOOK)): Promise<RawAnswer[]> {
  const connections = await Promise.all(requests.map(() => rawConnection(url)));
  const answersOf = (one: RawConnection): string[] => one.received().split(/(?=HTTP\/1\.1 )/);
  try {
    // One answer of each says that the server has accepted it.
    for (const { socket } of connections) socket.write(BEAT);
    await eventually('all are accepted', () => connections.every((one) => one.received().endsWith('}\n')));
    for (const [i, { socket }] of connections.entries()) socket.write(requests[i] as string);
    await eventually('all are answered', () => connections.every((one) => answersOf(one)[1]?.endsWith('}\n')));
    return connections.map((one) => parseAnswer(answersOf(one)[1] as string));
  } finally {
    for (const connection of connections) await connection[Symbol.asyncDispose]();
  }
}

describe('an event loop that is late', () => {
  it('serves what there is time for in a turn, and refuses the rest with 503 and Retry-After', async () => {
    await using frame = await start();
    // Where another program has the core, a crowd may come in two turns, or when it is calm again.
    const answers = await eventually('a crowd is too much', async () => {
      await overload(frame);
      const all = await crowd(frame);
      return all.some(({ status }) => status === 503) && all;
    });
    const refused = answers.filter(({ status }) => status === 503);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(TAKEN_MIN);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length + answers.filter(({ status }) => status === 200).length).toBe(AT_ONCE);
    for (const answer of refused) {
      const { body, headers } = answer;
      expectContract('GET', '/v1/locks/a', answer);
      expect(body).toMatchObject({ code: 'overloaded', retryable: true, outcome: 'not-applied' });
      expect(body).toMatchObject({ instance: headers['trace-id'] });
      expect(headers['retry-after']).toMatch(/^[1-4]$/);
    }
    expect(await refusals(frame)).toBe(refused.length);
    const { values } = await frame.metrics.httpRequestDurationSeconds.get();
    const counted = values.find(
      ({ metricName, labels }) => /_count$/.test(metricName ?? '') && labels.status === '503',
    );
    expect(counted).toMatchObject({ value: refused.length, labels: { route: '/v1/locks/{name}', method: 'GET' } });
  });

  it('refuses nothing that keeps or gives back what a client has, and no probe', async () => {
    await using frame = await start();
    const kept = [BEAT, ...['/healthz', '/readyz'].map(look)];
    // Who needs no credential for them would else be served before those who have one.
    const shed = [LOOK, ...['/docs', '/openapi.json', '/metrics'].map(look)];
    const requests = [...Array.from({ length: TAKEN_MIN }, () => LOOK), ...kept, ...shed, ...kept];
    const ofKept = new Set<number>();
    await eventually('all come in one turn, and all new work behind the first is refused', async () => {
      await overload(frame);
      const statuses = (await crowd(frame, requests)).map(({ status }) => status).slice(TAKEN_MIN);
      const ofShed = statuses.splice(kept.length, shed.length);
      for (const status of statuses) ofKept.add(status);
      return ofShed.every((status) => status === 503);
    });
    expect([...ofKept]).toEqual([200]);
  });

  it('serves at once who comes when it is over, and calls itself calm a second later', async () => {
    await using frame = await start();
    await overload(frame);
    for (let i = 0; i < AT_ONCE; i += 1) expect((await send(frame.url, 'get', '/v1/locks/a')).status).toBe(200);
    await eventually('it is calm', async () => (await overloaded(frame, 'event_loop')) === 0);
    const told = frame.log().flatMap(({ msg }) => /^(?:overloaded: |no longer overloaded$)/.exec(msg as string) ?? []);
    expect(told.length).toBeGreaterThanOrEqual(2);
    // Each once, and again where other programs have made it late meanwhile.
    expect(told).toEqual(told.map((_, i) => (i % 2 === 0 ? 'overloaded: ' : 'no longer overloaded')));
  });

  it('once is a collection of garbage, and no overload', async () => {
    await using frame = await start();
    const isOverloaded = async (): Promise<boolean> => (await overloaded(frame, 'event_loop')) === 1;
    for (let alone = 0; alone < 3;) {
      await eventually('it is calm', async () => !(await isOverloaded()));
      const { longestMs: longestBefore } = await turns(DELAY_MS, isOverloaded);
      busy(3 * DELAY_MS);
      const { longestMs, seen } = await turns(2 * DELAY_MS, isOverloaded);
      // Another program had the core: that was late twice.
      if (Math.max(longestBefore, longestMs) >= DELAY_MS) continue;
      expect(seen).toBe(false);
      alone += 1;
    }
  });

  it('is nothing to a replica whose delay is 0', async () => {
    await using frame = await start({ config: { overloadDelayMs: 0 } });
    await beLate();
    for (const { status } of await crowd(frame)) expect(status).toBe(200);
  });
});

describe('a refusal', () => {
  /** What there is no time for is refused whenever ZooKeeper's limit is reached: no chance in it. */
  const zooKeeperLimit = { set: true, admit: () => false, look: () => undefined };
  const shut = async (options: FrameOptions = {}): Promise<Frame> => {
    const frame = await start({ zooKeeperLimit, ...options });
    await eventually('it is overloaded', async () => (await overloaded(frame, 'zookeeper')) === 1);
    return frame;
  };

  it('comes before the credential and the body, and leaves both unread', async () => {
    await using frame = await shut();
    await using connection = await rawConnection(frame.url);
    connection.socket.write(
      'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\n{"not"' +
        'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n',
    );
    await eventually('both are answered', () => connection.received().includes('200 OK'));
    expect(connection.received()).toMatch(/^HTTP\/1\.1 503 /);
    expect(connection.ended()).toBe(false);
  });

  it('takes over the trace, and is in the log for those who look for it', async () => {
    await using frame = await shut();
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const { status, headers } = await send(frame.url, 'get', '/v1/locks/a', (test) =>
      test.set('traceparent', `00-${traceId}-00f067aa0ba902b7-01`),
    );
    expect({ status, traceId: headers['trace-id'] as string }).toEqual({ status: 503, traceId });
    expect(frame.log().find((line) => line['traceId'] === traceId)).toMatchObject({
      level: 'debug',
      late: 'zookeeper',
    });
  });

  it('says of a pop that it must not be repeated blindly, as all problems of it do', async () => {
    await using frame = await shut();
    expect((await send(frame.url, 'post', '/v1/queues/q/pop')).body).toMatchObject({
      code: 'overloaded',
      retryable: false,
    });
  });

  it('closes the connection of a client that asked whether to send its body', async () => {
    await using frame = await shut();
    await using connection = await rawConnection(frame.url);
    connection.socket.write(
      'PUT /v1/config/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n',
    );
    await eventually('it is closed', () => connection.ended());
    expect(connection.received()).toMatch(/^HTTP\/1\.1 503 [^]*connection: close/i);
  });

  it('lets the next request of the connection wait for as long as the event loop may be late', async () => {
    await using frame = await shut();
    await using connection = await rawConnection(frame.url);
    const answers = (): number => connection.received().split('HTTP/1.1 ').length - 1;
    const from = performance.now();
    for (let i = 1; i <= 5; i += 1) {
      connection.socket.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n');
      await eventually('it is answered', () => answers() === i, { everyMs: 1 });
    }
    expect(performance.now() - from).toBeGreaterThanOrEqual(3 * DELAY_MS);
  });

  it('is what everything else gets as well: paths and methods that are none, and hosts that are not served', async () => {
    await using frame = await shut();
    const refused = { status: 503, body: { code: 'overloaded' } };
    expect(await send(frame.url, 'get', '/v1/nothing')).toMatchObject(refused);
    expect(await send(frame.url, 'delete', '/v1/locks/a')).toMatchObject(refused);
    expect(await send(frame.url, 'post', '/healthz')).toMatchObject(refused);
    expect(await send(frame.url, 'get', '/v1/locks/a%')).toMatchObject(refused);
    expect(await send(frame.url, 'get', '/v1/locks/a', (test) => test.set('Host', 'evil.example'))).toMatchObject(
      refused,
    );
    const { values } = await frame.metrics.httpRequestDurationSeconds.get();
    const routes = new Set(values.filter(({ labels }) => labels.status === '503').map(({ labels }) => labels.route));
    expect([...routes].sort()).toEqual(['/v1/locks/{name}', 'unmatched']);
  });

  it('counts methods that are none as one, and lets no path into the metrics', async () => {
    await using frame = await shut();
    for (const [i, method] of ['PURGE', 'PROPFIND', 'LOCK'].entries())
      await sendRaw(frame.url, `${method} /wp-${i} HTTP/1.1\r\nHost: localhost\r\n\r\n`, method, `/wp-${i}`);
    const { values } = await frame.metrics.httpRequestDurationSeconds.get();
    const counted = values.filter(({ metricName }) => /_count$/.test(metricName ?? ''));
    expect(counted).toMatchObject([{ value: 3, labels: { route: 'unmatched', method: 'OTHER', status: '503' } }]);
  });

  it('of what a browser asks first follows what it asks about', async () => {
    const config = { corsOrigins: ['https://app.example'] };
    await using frame = await shut({ config });
    const ask = (path: string): Promise<Response> =>
      fetch(frame.url + path, {
        method: 'OPTIONS',
        headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' },
      });
    expect((await ask('/v1/leases/self/heartbeat')).status).toBe(204);
    expect((await ask('/v1/locks/a/acquire')).status).toBe(503);
  });

  it('tells every operation that is new work, and no other', async () => {
    await using frame = await shut();
    for (const { method, template, rateLimited, isPublic } of openApi().operations) {
      if (isPublic) continue;
      const path = template.replaceAll(/\{\w+\}/g, 'x');
      const before = await refusals(frame);
      const response = await fetch(frame.url + path, { method, redirect: 'manual' });
      await response.arrayBuffer();
      expect({ template, method, refused: (await refusals(frame)) - before }).toEqual({
        template,
        method,
        refused: rateLimited ? 1 : 0,
      });
    }
  });
});
