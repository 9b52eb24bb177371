/** TLS on the main listener, with real certificates, which change while clients go on. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { Agent, request } from 'undici';
import { afterAll, describe, expect, it } from 'vitest';
import type { Routes } from '../../src/http/frame/exchange.js';
import { CertificateAuthority, type Pem } from '../support/http/certificate-authority.js';
import { eventually } from '../support/eventually.js';
import { scaled, timing } from '../support/timing.js';
import { free, held } from './client.js';
import { startFrame, type Frame, type FrameOptions } from './harness.js';

const directory = mkdtempSync(join(tmpdir(), 'postern-tls-'));
afterAll(() => rmSync(directory, { recursive: true }));

const authority = new CertificateAuthority('Postern test authority');
const routes: Routes = { showLock: free, acquireLock: held };

let count = 0;
/** Files of one listener, changed as a mounted secret is. */
class Files {
  readonly #prefix = `${(count += 1)}`;
  readonly tlsCert = join(directory, `${this.#prefix}.crt`);
  readonly tlsKey = join(directory, `${this.#prefix}.key`);
  readonly tlsClientCa = join(directory, `${this.#prefix}-clients.crt`);

  write(pem: Partial<Pem> & { clients?: string }): void {
    if (pem.cert !== undefined) swap(this.tlsCert, pem.cert);
    if (pem.key !== undefined) swap(this.tlsKey, pem.key);
    if (pem.clients !== undefined) swap(this.tlsClientCa, pem.clients);
  }
}

function swap(file: string, content: string): void {
  writeFileSync(`${file}.new`, content);
  renameSync(`${file}.new`, file);
}

async function start(files: Files, options: FrameOptions & { clients?: boolean } = {}): Promise<Frame> {
  const { tlsCert, tlsKey, tlsClientCa } = files;
  const config = { tlsCert, tlsKey, ...(options.clients === true ? { tlsClientCa } : {}), ...options.config };
  return startFrame({ routes, tlsPollMs: timing.pollMs, ...options, config });
}

/** A client that trusts the authority; with `pem` it shows a certificate. */
function agentOf(pem?: Pem, ca = authority.cert): Agent {
  return new Agent({ connect: { ca, ...pem } });
}

async function statusOf(frame: Frame, dispatcher: Agent): Promise<number> {
  const response = await request(`${frame.url}/v1/locks/a`, { dispatcher });
  await response.body.dump();
  return response.statusCode;
}

/** Of the certificate that a new connection is shown. */
async function subjectAt(frame: Frame, options: ConnectionOptions = {}): Promise<string | undefined> {
  await using socket = await open(frame, options);
  return String(socket.tls.getPeerCertificate().subject.CN);
}

async function open(
  frame: Frame,
  options: ConnectionOptions = {},
): Promise<AsyncDisposable & { tls: TLSSocket; received: () => string }> {
  const tls = connect({ host: '127.0.0.1', port: frame.server.port, ca: authority.cert, ...options });
  let text = '';
  tls.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(tls, 'secureConnect');
  tls.on('error', () => undefined);
  return {
    tls,
    received: () => text,
    [Symbol.asyncDispose]() {
      tls.destroy();
      return Promise.resolve();
    },
  };
}

describe('the main listener with a certificate', () => {
  it('speaks TLS 1.2 and newer only, and the operations port none', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files, { config: { opsPort: 0 } });
    expect(frame.url).toMatch(/^https:/);
    const agent = agentOf();
    expect(await statusOf(frame, agent)).toBe(200);
    await agent.close();
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      await using socket = await open(frame, { minVersion: version, maxVersion: version });
      expect(socket.tls.getProtocol()).toBe(version);
    }
    await expect(
      open(frame, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }),
    ).rejects.toMatchObject({ code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' });
    const probe = await request(`http://127.0.0.1:${frame.server.opsPort}/healthz`);
    expect(probe.statusCode).toBe(200);
    await probe.body.dump();
  });

  it('tells browsers to stay with it, which the operations port does not', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files, { config: { opsPort: 0 } });
    const agent = agentOf();
    for (const [url, said] of [
      [`${frame.url}/healthz`, 'max-age=31536000'],
      [`http://127.0.0.1:${frame.server.opsPort}/healthz`, undefined],
    ] as const) {
      const { headers, body } = await request(url, { dispatcher: agent });
      await body.dump();
      expect(headers['strict-transport-security']).toBe(said);
    }
    await agent.close();
  });

  it('tells plain HTTP to use TLS, in a 400 of plain HTTP, and the log once in a while', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files);
    for (let i = 0; i < 3; i += 1) {
      const { statusCode, headers, body } = await request(`http://127.0.0.1:${frame.server.port}/healthz`);
      expect(statusCode).toBe(400);
      expect(headers).toMatchObject({ 'content-type': 'application/problem+json', connection: 'close' });
      expect(await body.json()).toMatchObject({ code: 'malformed', detail: expect.stringContaining('https://') });
    }
    const lines = frame.log().filter(({ msg }) => String(msg).startsWith('plain HTTP at the TLS port'));
    expect(lines.map(({ level }) => level)).toEqual(['warn']);
  });

  it('gives what is neither TLS nor HTTP no answer, and one line for those who look closely', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files);
    const socket = connectTcp(frame.server.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => (received += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.write('\u0001\u0002\u0003\u0004 something else entirely\r\n\r\n');
    await once(socket, 'close');
    expect(received).not.toContain('HTTP/1.1');
    await eventually('the line', () => frame.log().some(({ msg }) => msg === 'TLS handshake failed'));
    expect(frame.log().some(({ msg }) => msg === 'malformed request')).toBe(false);
  });

  it('is found alive by the healthcheck of the image', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files);
    const probe = fileURLToPath(new URL('../../scripts/probe.mjs', import.meta.url));
    const settings = { POSTERN_PORT: String(frame.server.port), POSTERN_TLS_CERT: files.tlsCert };
    const ask = (env: NodeJS.ProcessEnv): Promise<unknown> => promisify(execFile)(process.execPath, [probe], { env });
    await ask(settings);
    await expect(ask({ ...settings, POSTERN_TLS_CERT: '' })).rejects.toMatchObject({ code: 1 });
  });

  it('answers what is no request as it does without TLS, and keeps connections', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files);
    await using garbage = await open(frame);
    garbage.tls.write('this is no HTTP\r\n\r\n');
    await eventually('an answer', () => garbage.received().includes('"code":"malformed"'));
    expect(garbage.received()).toMatch(/^HTTP\/1\.1 400 /);
    await using kept = await open(frame);
    for (let n = 1; n <= 3; n += 1) {
      kept.tls.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
      await eventually('an answer', () => kept.received().split('HTTP/1.1 200').length - 1 === n);
    }
  });

  it.each([
    ['is not there', {}, /^POSTERN_TLS_CERT is .*: it cannot be read \(ENOENT\)\.$/],
    [
      'is none',
      { cert: 'nonsense', key: 'nonsense' },
      /^POSTERN_TLS_CERT is .*a PEM file with a certificate: it is not\.$/,
    ],
    [
      'has another key',
      { cert: authority.issue('a').cert, key: authority.issue('b').key },
      /^POSTERN_TLS_KEY is .*: it is not\.$/,
    ],
  ])('stops the start when the certificate %s', async (_, pem, sentence) => {
    const files = new Files();
    files.write(pem);
    const refused = start(files);
    await expect(refused).rejects.toThrow(sentence);
    await refused.catch((error: Error) => expect(error.message).not.toContain('PRIVATE'));
  });

  it('warns of a certificate that has expired', async () => {
    const files = new Files();
    files.write(authority.issue('old', { notAfter: Date.now() - 1000 }));
    await using frame = await start(files);
    expect(frame.log().find(({ level }) => level === 'warn')).toMatchObject({ msg: 'TLS certificate expired' });
  });
});

describe('a certificate that changes', () => {
  it('fails no request under load: new connections get the new one, those that exist go on', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files);
    await using kept = await open(frame);
    let going = true;
    let done = 0;
    const load = Array.from({ length: 8 }, async (_, i) => {
      // Half of them keep their connections, the others make one for each request.
      let agent = agentOf();
      while (going) {
        expect(await statusOf(frame, agent)).toBe(200);
        done += 1;
        if (i % 2 === 0) continue;
        await agent.close();
        agent = agentOf();
      }
      await agent.close();
    });
    for (const name of ['second', 'third', 'fourth']) {
      const before = done;
      files.write(authority.issue(name));
      await eventually(`the ${name} is shown`, async () => (await subjectAt(frame)) === name);
      await eventually('the load goes on', () => done > before + 50);
    }
    going = false;
    await Promise.all(load);
    kept.tls.write('GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually('an answer', () => kept.received().startsWith('HTTP/1.1 200'));
    expect(kept.tls.getPeerCertificate().subject.CN).toBe('first');
    expect(
      frame.log().filter(({ level, status }) => level === 'error' || (status !== undefined && status !== 200)),
    ).toEqual([]);
  });

  it('into what cannot be used stays as it was, with an error in the log, until it can', async () => {
    const files = new Files();
    files.write(authority.issue('first'));
    await using frame = await start(files);
    const errors = (): unknown[] => frame.log().filter(({ level }) => level === 'error');
    const second = authority.issue('second');
    files.write({ cert: second.cert });
    await eventually('the fault is logged', () => errors().length > 0);
    expect(await subjectAt(frame)).toBe('first');
    files.write({ key: second.key });
    await eventually('the pair is whole', async () => (await subjectAt(frame)) === 'second');
    const soFar = errors().length;
    files.write({ cert: 'nonsense' });
    await eventually('the fault is logged', () => errors().length > soFar);
    expect(await subjectAt(frame)).toBe('second');
    expect(JSON.stringify(frame.log())).not.toContain('PRIVATE');
  });
});

describe('POSTERN_TLS_CLIENT_CA', () => {
  const clients = new CertificateAuthority('Authority of clients');
  const others = new CertificateAuthority('Another authority of clients');

  /** A server tells of a missing certificate only after the handshake, as far as TLS 1.3 goes. */
  async function isServed(frame: Frame, pem?: Pem): Promise<boolean> {
    const agent = agentOf(pem);
    try {
      return (await statusOf(frame, agent)) === 200;
    } catch {
      return false;
    } finally {
      await agent.destroy();
    }
  }

  it('lets nobody in without a certificate that it signed, in any version of TLS', async () => {
    const files = new Files();
    files.write({ ...authority.issue('server'), clients: clients.cert });
    await using frame = await start(files, { clients: true });
    expect(await isServed(frame, clients.issue('worker'))).toBe(true);
    const before = frame.log().filter(({ route }) => route !== undefined).length;
    expect(await isServed(frame)).toBe(false);
    expect(await isServed(frame, others.issue('worker'))).toBe(false);
    // The server's own authority is not that of clients.
    expect(await isServed(frame, authority.issue('worker'))).toBe(false);
    expect(await isServed(frame, clients.issue('expired', { notAfter: Date.now() - 1000 }))).toBe(false);
    await expect(open(frame, { maxVersion: 'TLSv1.2' })).rejects.toThrow();
    expect(frame.log().filter(({ route }) => route !== undefined)).toHaveLength(before); // no request was looked at
    expect(frame.log().filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
    expect(await isServed(frame, clients.issue('worker'))).toBe(true);
  });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'lets nobody in with a certificate that has expired, by a session of before neither, and ends what came with it, in %s',
    async (version) => {
      const files = new Files();
      files.write({ ...authority.issue('first'), clients: clients.cert });
      await using frame = await start(files, { clients: true });
      const notAfter = Math.ceil((Date.now() + scaled(2_000)) / 1_000) * 1_000;
      const shown = { ...clients.issue('for seconds', { notAfter }), minVersion: version, maxVersion: version };
      const get = 'GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n';
      await using before = await open(frame, shown);
      let session: Buffer | undefined = before.tls.getSession();
      before.tls.on('session', (ticket: Buffer) => (session = ticket));
      before.tls.write(get);
      await eventually('it is served', () => before.received().includes('HTTP/1.1 200'));
      await eventually('its connection is ended', () => before.tls.closed);
      expect(Date.now()).toBeGreaterThanOrEqual(notAfter);

      const statusBy = async (options: ConnectionOptions): Promise<string> => {
        const after = await open(frame, options).catch(() => undefined);
        if (after === undefined) return 'no connection';
        await using socket = after;
        const how = socket.tls.isSessionReused() ? 'resumed' : 'new';
        socket.tls.write(get);
        await eventually('it is over', () => socket.tls.closed || socket.received() !== '');
        return `${how} ${socket.received().slice(0, 12)}`;
      };
      for (const options of [shown, { minVersion: version, maxVersion: version, ...(session && { session }) }])
        expect(await statusBy(options)).not.toMatch(/HTTP|resumed/);
    },
  );

  it('is read again when it changes', async () => {
    const files = new Files();
    files.write({ ...authority.issue('server'), clients: clients.cert });
    await using frame = await start(files, { clients: true });
    const [before, after] = [clients.issue('worker'), others.issue('worker')];
    expect([await isServed(frame, before), await isServed(frame, after)]).toEqual([true, false]);
    files.write({ clients: clients.cert + others.cert });
    await eventually('both are let in', async () => isServed(frame, after));
    expect(await isServed(frame, before)).toBe(true);
    files.write({ clients: others.cert });
    await eventually('the old one is refused', async () => !(await isServed(frame, before)));
    expect(await isServed(frame, after)).toBe(true);
  });

  it('must hold a certificate', async () => {
    const files = new Files();
    files.write({ ...authority.issue('server'), clients: '' });
    await expect(start(files, { clients: true })).rejects.toThrow(/^POSTERN_TLS_CLIENT_CA is /);
  });
});

describe('a connection that never gets through its handshake', () => {
  it('is cut off after the time for headers', async () => {
    const files = new Files();
    files.write(authority.issue('server'));
    await using frame = await start(files, { timeouts: { headersMs: timing.pollMs } });
    const socket = connectTcp(frame.server.port, '127.0.0.1');
    socket.on('error', () => undefined);
    await once(socket, 'close');
  });

  it('does not keep the listener from stopping', async () => {
    const files = new Files();
    files.write(authority.issue('server'));
    await using frame = await start(files);
    const socket = connectTcp(frame.server.port, '127.0.0.1');
    socket.on('error', () => undefined);
    const closed = once(socket, 'close');
    await once(socket, 'connect');
    const startedAt = performance.now();
    await frame.server.stop(timing.pollMs);
    await closed;
    expect(performance.now() - startedAt).toBeLessThan(5_000); // the handshake has ten seconds
  });
});
