/**
 * Strangers take neither the descriptors that the connections to ZooKeeper need, nor the connections of those who have
 * a credential.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { expect, it } from 'vitest';
import type { Handler } from '../../src/http/frame/exchange.js';
import { maxConnectionsOf } from '../../src/http/server/max-connections.js';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { CertificateAuthority } from '../support/http/certificate-authority.js';
import { eventually, throughout } from '../support/eventually.js';
import { startFrame, type Frame } from './harness.js';
import { free, rawConnection, type RawConnection } from './client.js';

const PROBE = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n';
const show = (name: string, headers = ''): string =>
  `GET /v1/locks/${name} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`;

const bearer = (keys: ApiKeys, principal: string): string => `Authorization: Bearer ${keys.as(principal, '').key}\r\n`;

async function open(frame: Frame, bytes: string): Promise<RawConnection> {
  const connection = await rawConnection(frame.url);
  connection.socket.write(bytes);
  return connection;
}

const answersOf = (connection: RawConnection): number => connection.received().split('HTTP/1.1 ').length - 1;
const isClosed = (connection: RawConnection): boolean => connection.ended() || connection.socket.destroyed;

/**
 * Opened one after the other, each when the one before has its answer: so it is known which one has been idle longest.
 */
async function openServed(frame: Frame, bytes: string, count: number): Promise<RawConnection[]> {
  const opened: RawConnection[] = [];
  for (let i = 0; i < count; i += 1) {
    const connection = await open(frame, bytes);
    await eventually('it is answered', () => answersOf(connection) === 1);
    opened.push(connection);
  }
  return opened;
}

it('closes the connection that has been idle longest for a new one, and none on which somebody waits', async () => {
  let letGo = (): void => undefined;
  const released = new Promise<void>((resolve) => (letGo = resolve));
  const showLock: Handler = async (exchange) => {
    await released;
    return free(exchange);
  };
  await using frame = await startFrame({ config: { maxConnections: 3 }, routes: { showLock } });
  await using waiting = await open(frame, show('slow'));
  const [first, second] = (await openServed(frame, PROBE, 2)) as [RawConnection, RawConnection];
  first.socket.write(PROBE);
  await eventually('the first is answered again', () => answersOf(first) === 2);
  await using third = await open(frame, show('slow'));
  await eventually('the one that was idle longest is closed', () => isClosed(second));
  await using fourth = await open(frame, show('slow'));
  await eventually('then the other', () => isClosed(first));
  await using fifth = await open(frame, PROBE);
  await eventually('somebody waits on all that are left: the new one is closed', () => isClosed(fifth));
  expect(fifth.received()).toBe('');
  expect(frame.log().filter(({ maxConnections }) => maxConnections === 3)).toHaveLength(2);
  letGo();
  await eventually('those who wait are answered', () => [waiting, third, fourth].every((one) => answersOf(one) === 1));
  await using sixth = await open(frame, PROBE);
  await eventually('and make room', () => answersOf(sixth) === 1 && isClosed(waiting));
});

it('closes none of those who may do what they ask for, and lets them in, however many connections strangers keep', async () => {
  await using keys = await makeApiKeys({ worker: '*', powerless: {} });
  await using frame = await startFrame({
    config: { authFile: keys.file, maxConnections: 4 },
    routes: { showLock: free },
  });
  const [own] = (await openServed(frame, show('a', bearer(keys, 'worker')), 1)) as [RawConnection];
  const strangers = [
    ...(await openServed(frame, PROBE, 2)),
    ...(await openServed(frame, show('a'), 2)),
    ...(await openServed(frame, show('a', 'Authorization: Bearer none\r\n'), 2)),
    ...(await openServed(frame, show('a', bearer(keys, 'powerless')), 2)),
    await open(frame, 'GET /healthz HTTP/1.1\r\nHost: loc'),
  ];
  await eventually('the first of them are closed', () => strangers.slice(0, 6).every(isClosed));
  const others = await openServed(frame, show('a', bearer(keys, 'worker')), 3);
  await eventually('no stranger is left', () => strangers.every(isClosed));
  await throughout('they are kept', () => ![own, ...others].some(isClosed));
  own.socket.write(show('a', bearer(keys, 'worker')));
  await eventually('the oldest is served on', () => answersOf(own) === 2);
});

it('lets a newcomer in at the cost of the principal that has most: of the connection that has been quiet longest', async () => {
  let letGo = (): void => undefined;
  const released = new Promise<void>((resolve) => (letGo = resolve));
  const showLock: Handler = async (exchange) => {
    if (exchange.params['name'] === 'slow') await released;
    return free(exchange);
  };
  await using keys = await makeApiKeys({ many: '*', few: '*' });
  await using frame = await startFrame({ config: { authFile: keys.file, maxConnections: 4 }, routes: { showLock } });
  const [own] = (await openServed(frame, show('a', bearer(keys, 'few')), 1)) as [RawConnection];
  const [first, second] = (await openServed(frame, show('a', bearer(keys, 'many')), 2)) as [
    RawConnection,
    RawConnection,
  ];
  await using waiting = await open(frame, show('slow', bearer(keys, 'many')));
  first.socket.write(show('a', bearer(keys, 'many')));
  await eventually('it is answered again', () => answersOf(first) === 2);
  await using third = await open(frame, show('a', bearer(keys, 'few')));
  await eventually('it is served', () => answersOf(third) === 1);
  expect([own, first, second, waiting].map(isClosed)).toEqual([false, false, true, false]);
  await using fourth = await open(frame, show('slow', bearer(keys, 'few')));
  await eventually('as many of both: the one that has been quiet longest is closed', () => isClosed(own));
  await throughout('no other is', () => ![first, third, waiting, fourth].some(isClosed));
  expect(frame.log().filter(({ maxConnections }) => maxConnections === 4)).toHaveLength(1);
  letGo();
  await eventually('who waited is answered', () => answersOf(waiting) === 1 && answersOf(fourth) === 1);
});

it('lets a newcomer in where one principal waits on more than half of all connections, at the cost of what has waited longest', async () => {
  await using keys = await makeApiKeys({ many: '*', few: '*' });
  let letGo = (): void => undefined;
  const released = new Promise<void>((resolve) => (letGo = resolve));
  const showLock: Handler = async (exchange) => {
    await released;
    return free(exchange);
  };
  await using frame = await startFrame({ config: { authFile: keys.file, maxConnections: 4 }, routes: { showLock } });
  const inFlight = async (): Promise<number> => (await frame.metrics.httpRequestsInFlight.get()).values[0]?.value ?? 0;
  const waiting: RawConnection[] = [];
  for (const principal of ['few', 'many', 'many', 'many']) {
    waiting.push(await open(frame, show('slow', bearer(keys, principal))));
    await eventually('it waits', async () => (await inFlight()) === waiting.length);
  }
  await using newcomer = await open(frame, show('slow', bearer(keys, 'few')));
  await eventually('the one that waits longest of many is closed', () => waiting.some(isClosed));
  // The handler of the one that is closed waits on as well.
  await eventually('the newcomer waits in its place', async () => (await inFlight()) === 5);
  expect(waiting.map(isClosed)).toEqual([false, true, false, false]);
  await using refused = await open(frame, show('slow', bearer(keys, 'few')));
  await eventually('nobody has more than half: the next one is closed', () => isClosed(refused));
  letGo();
  await eventually('the others are answered', () => answersOf(newcomer) === 1);
});

it.each([
  ['asked for what is public', () => PROBE],
  ['was refused its credential', () => show('a', 'Authorization: Bearer revoked\r\n')],
  ['was refused what it may not do', (keys: ApiKeys) => show('b', bearer(keys, 'worker'))],
  [
    'asked for a path that there is not',
    (keys: ApiKeys) => show('b', bearer(keys, 'worker')).replace('locks', 'looks'),
  ],
])('takes a connection for nobody’s again when its last request %s', async (_what, last) => {
  await using keys = await makeApiKeys({
    worker: { default: { lock: { scopes: ['read'], names: ['a'] } } },
    other: '*',
  });
  await using frame = await startFrame({
    config: { authFile: keys.file, maxConnections: 3 },
    routes: { showLock: free },
  });
  const [quiet, lapsed] = (await openServed(frame, show('a', bearer(keys, 'worker')), 2)) as [
    RawConnection,
    RawConnection,
  ];
  lapsed.socket.write(last(keys));
  await eventually('it is answered', () => answersOf(lapsed) === 2);
  const newcomers = await openServed(frame, show('a', bearer(keys, 'other')), 2);
  await eventually('it is closed for a newcomer', () => isClosed(lapsed));
  await throughout(
    'the other one, which has been quiet for longer, is not',
    () => ![quiet, ...newcomers].some(isClosed),
  );
});

it('knows the connections below TLS', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'postern-connections-'));
  const authority = new CertificateAuthority('Postern test authority');
  const [tlsCert, tlsKey] = [join(directory, 'tls.crt'), join(directory, 'tls.key')];
  const pem = authority.issue('postern');
  writeFileSync(tlsCert, pem.cert);
  writeFileSync(tlsKey, pem.key);
  await using keys = await makeApiKeys({ worker: '*' });
  const config = { authFile: keys.file, maxConnections: 2, tlsCert, tlsKey };
  await using frame = await startFrame({ config, routes: { showLock: free } });
  rmSync(directory, { recursive: true });
  const connect = async (
    bytes: string,
  ): Promise<{ closed: () => boolean; received: () => string; end: () => void }> => {
    const socket = connectTls({ port: Number(new URL(frame.url).port), host: '127.0.0.1', ca: authority.cert });
    let [received, closed] = ['', false];
    socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1'))).on('error', () => undefined);
    socket.on('close', () => (closed = true));
    socket.write(bytes);
    await eventually('it is answered', () => received.startsWith('HTTP/1.1 200'));
    return { closed: () => closed, received: () => received, end: () => socket.destroy() };
  };
  const own = await connect(show('a', `Authorization: Bearer ${keys.as('worker', '').key}\r\n`));
  const strangers = [await connect(PROBE), await connect(PROBE), await connect(PROBE)];
  await eventually('the strangers made room for each other', () =>
    strangers.slice(0, 2).every(({ closed }) => closed()),
  );
  expect(own.closed()).toBe(false);
  for (const { end } of [own, ...strangers]) end();
});

it.each([
  ['what is left beside the sessions', 20_000, 1, 7_488],
  ['what is left beside those at each ensemble', 60_000, 3, 23_488],
  ['a quarter at least', 20_000, 2, 5_000],
  ['any number', Infinity, 2, Infinity],
])('is by default %s', (_what, descriptors, ensembles, expected) => {
  expect(maxConnectionsOf({ maxConnections: undefined, maxAttached: 12_000 }, ensembles, descriptors)).toBe(expected);
  expect(maxConnectionsOf({ maxConnections: 7, maxAttached: 12_000 }, ensembles, descriptors)).toBe(7);
});
