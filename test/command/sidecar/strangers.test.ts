/** What strangers on the network of the pod can do to the sidecar: nothing that its probes and its program notice. */
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { startPair, type Pair } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { LONG_MS } from '../run-command.js';
import { startPod, type Pod } from './pod.js';

/** More than are open at a time. */
const MANY = 520;
const STRANGER = '127.0.0.2';
const HEAD = 'GET /leader HTTP/1.1\r\nHost: x\r\n';
const KINDS = ['', HEAD, `POST /leader HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n`, `${HEAD}\r\n`];

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

/** Connections of a stranger who says something, waits, and reads nothing. */
class Strangers implements Disposable {
  readonly sockets: Socket[] = [];
  closed = 0;
  readonly #port: number;

  constructor(url: string) {
    this.#port = Number(new URL(url).port);
  }

  async come(count: number, says: (index: number) => string): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const socket = connect({ port: this.#port, host: '127.0.0.1', localAddress: STRANGER });
      socket.on('error', () => undefined);
      socket.on('close', () => (this.closed += 1));
      this.sockets.push(socket);
      await once(socket, 'connect');
      socket.write(says(index));
    }
  }

  [Symbol.dispose](): void {
    for (const socket of this.sockets) socket.destroy();
  }
}

/** On a connection of its own. */
function ask(url: string, path: string): Promise<number | string> {
  return new Promise((resolve) => {
    const asked = request(`${url}${path}`, { agent: false, timeout: LONG_MS }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    asked.on('error', ({ message }) => resolve(message));
    asked.end();
  });
}

const start = (): Promise<Pod> =>
  startPod(pair.a.url, ['--health', 'none', '--elect', 'stranger', '--listen-probes', '127.0.0.1:0']);

describe('a stranger who opens many connections', { timeout: LONG_MS }, () => {
  it('keeps no probe out, whatever he sends on them', async () => {
    await using pod = await start();
    await eventually('it leads', () => pod.leads(), { withinMs: LONG_MS });
    using strangers = new Strangers(pod.probesUrl);
    for (let turn = 0; turn < 3; turn += 1) {
      await strangers.come(MANY, (index) => KINDS[index % KINDS.length] as string);
      for (const path of ['/leader', '/healthz', '/readyz']) expect(await ask(pod.probesUrl, path)).toBe(200);
      expect(await pod.leads()).toBeGreaterThan(0);
    }
  });

  it('takes them from himself, and not from a probe that came before him', async () => {
    await using pod = await start();
    const probe = connect({ port: Number(new URL(pod.probesUrl).port), host: '127.0.0.1' });
    await once(probe, 'connect');
    using strangers = new Strangers(pod.probesUrl);
    await strangers.come(MANY, () => '');
    probe.write(`${HEAD}Connection: close\r\n\r\n`);
    const [answer] = (await once(probe, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 (200|503) /);
    probe.destroy();
  });

  it('loses those on which nothing comes, and half of a request, soon', async () => {
    await using pod = await start();
    using strangers = new Strangers(pod.probesUrl);
    const startedAt = performance.now();
    await strangers.come(20, (index) => KINDS[index % 2] as string);
    for (const socket of strangers.sockets) socket.resume();
    await eventually('all are closed', () => strangers.closed === 20, { withinMs: LONG_MS });
    expect(performance.now() - startedAt).toBeLessThan(scaled(6_000));
  });
});
