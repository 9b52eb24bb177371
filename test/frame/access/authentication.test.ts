import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Handler, Scope } from '../../../src/http/frame/exchange.js';
import { eventually } from '../../support/eventually.js';
import { MAIN } from '../../support/start-gateway.js';
import { timing } from '../../support/timing.js';
import { free, held, rawConnection, send } from '../client.js';
import { startFrame, type Frame } from '../harness.js';

const directory = mkdtempSync(join(tmpdir(), 'postern-auth-'));
afterAll(() => rmSync(directory, { recursive: true }));

const hashOf = (key: string): string => `sha256:${createHash('sha256').update(key).digest('hex')}`;

/** Writes the file as a mounted secret changes: all at once. */
function writeKeys(name: string, content: unknown): string {
  const file = join(directory, name);
  writeFileSync(`${file}.new`, typeof content === 'string' ? content : JSON.stringify(content));
  renameSync(`${file}.new`, file);
  return file;
}

/** A handler that needs a scope in the namespace of the request. */
const needs =
  (scope: Scope, handler: Handler): Handler =>
  (exchange) => {
    exchange.authorize(scope, exchange.namespace ?? 'default');
    return handler(exchange);
  };

const routes = { acquireLock: needs('use', held), showLock: needs('read', free) };

describe('without API keys', () => {
  let frame: Frame;
  beforeAll(async () => (frame = await startFrame({ routes })));
  afterAll(() => frame[Symbol.asyncDispose]());

  it('everybody on this machine is anonymous and may do everything', async () => {
    expect((await send(frame.url, 'post', '/v1/locks/a/acquire')).status).toBe(200);
    expect(frame.log().at(-1)).toMatchObject({ principal: 'anonymous', status: 200 });
  });

  it.each(['localhost', 'localhost:7070', 'LOCALHOST:1', '127.0.0.1:7070', '127.9.9.9', '[::1]:7070', '[::1]'])(
    'the host %s is served',
    async (host) => {
      expect((await send(frame.url, 'get', '/healthz', (test) => test.set('Host', host))).status).toBe(200);
    },
  );

  it.each(['evil.example', 'localhost.evil.example', '10.0.0.1:7070', '0.0.0.0', '127.0.0.1.evil.example', '[::2]'])(
    'the host %s is refused, also for probes',
    async (host) => {
      const response = await send(frame.url, 'get', '/healthz', (test) => test.set('Host', host));
      expect(response.status).toBe(403);
      expect(response.body).toMatchObject({ code: 'forbidden' });
    },
  );

  it('the host of a target in absolute form counts, not the header', async () => {
    const answers: string[] = [];
    for (const target of ['http://localhost:1/healthz', 'http://evil.example/healthz']) {
      await using connection = await rawConnection(frame.url);
      connection.socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      answers.push(await eventually('an answer', () => /^HTTP\/1.1 (\d+)/.exec(connection.received())?.[1]));
    }
    expect(answers).toEqual(['200', '403']);
  });

  it.each(['https://evil.example', 'null', 'http://localhost:7070'])(
    'a request from a web page at %s is refused',
    async (origin) => {
      const response = await send(frame.url, 'post', '/v1/locks/a/acquire', (test) =>
        test.set('Origin', origin).send({}),
      );
      expect(response.status).toBe(403);
      expect(response.headers['access-control-allow-origin']).toBeUndefined();
    },
  );

  it('a request from a page of the gateway itself is served, and none from a page that only has its name', async () => {
    const { host } = new URL(frame.url);
    const statusFor = async (origin: string, name: string, more: Record<string, string> = {}): Promise<number> =>
      (
        await send(frame.url, 'post', '/v1/locks/a/acquire', (test) =>
          test.set({ Origin: origin, Host: name, ...more }).send({}),
        )
      ).status;
    const own = [host, 'localhost:7070', '[::1]:7070'];
    for (const name of own) expect([name, await statusFor(`http://${name}`, name)]).toEqual([name, 200]);
    expect(await statusFor('https://localhost', 'localhost')).toBe(200);
    // A name that points here (DNS rebinding), another port, another scheme, and a page without an origin.
    expect(await statusFor('http://evil.example:7070', 'evil.example:7070')).toBe(403);
    expect(await statusFor('http://localhost:7071', 'localhost:7070')).toBe(403);
    expect(await statusFor('file://localhost:7070', 'localhost:7070')).toBe(403);
    expect(await statusFor('null', 'null')).toBe(403);
    // What the browser knows: the same name under another scheme, or before a proxy changed it.
    expect(await statusFor('http://localhost', 'localhost', { 'Sec-Fetch-Site': 'same-origin' })).toBe(200);
    expect(await statusFor('http://localhost', 'localhost', { 'Sec-Fetch-Site': 'same-site' })).toBe(403);
    expect(await statusFor('http://localhost', 'localhost', { 'Sec-Fetch-Site': 'cross-site' })).toBe(403);
  });

  it.each([
    ['an image in a page elsewhere', 403, { site: 'cross-site', mode: 'no-cors', dest: 'image' }],
    ['an image in a page of another name of this site', 403, { site: 'same-site', mode: 'no-cors', dest: 'image' }],
    ['a frame in a page elsewhere', 403, { site: 'cross-site', mode: 'navigate', dest: 'iframe' }],
    ['a link elsewhere that somebody follows', 200, { site: 'cross-site', mode: 'navigate', dest: 'document' }],
    ['an address that somebody types', 200, { site: 'none', mode: 'navigate', dest: 'document' }],
    ['a page of our own', 200, { site: 'same-origin', mode: 'no-cors', dest: 'image' }],
  ])('%s is answered with %i', async (_what, status, { site, mode, dest }) => {
    const response = await send(frame.url, 'get', '/v1/locks/a', (test) =>
      test.set({ 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': mode, 'Sec-Fetch-Dest': dest }),
    );
    expect(response.status).toBe(status);
  });
});

describe('without API keys but POSTERN_INSECURE', () => {
  const config = { insecure: true, host: '127.0.0.1', allowedHosts: ['postern', 'postern.shop.svc'] };

  it('addresses and the hosts that are allowed are served, but no other name, which may be that of a web page (DNS rebinding)', async () => {
    await using frame = await startFrame({ routes, config });
    const statusFor = async (host: string): Promise<number> =>
      (await send(frame.url, 'get', '/v1/locks/a', (test) => test.set('Host', host))).status;
    for (const host of ['postern:7070', 'POSTERN', 'postern.shop.svc', 'localhost', '10.1.2.3:7070', '[fd00::1]:7070'])
      expect([host, await statusFor(host)]).toEqual([host, 200]);
    for (const host of ['evil.example', 'postern.evil.example', '10.1.2.3.evil.example', 'x.postern', '[fd00::1].evil'])
      expect([host, await statusFor(host)]).toEqual([host, 403]);
    const refused = await send(frame.url, 'get', '/v1/locks/a', (test) => test.set('Host', 'evil.example'));
    expect(refused.body).toMatchObject({
      code: 'forbidden',
      detail: expect.stringMatching(/"evil\.example".*POSTERN_ALLOWED_HOSTS/),
    });
  });

  it('no web page is served', async () => {
    await using frame = await startFrame({ routes, config });
    expect(
      (await send(frame.url, 'get', '/healthz', (test) => test.set('Origin', 'https://evil.example'))).status,
    ).toBe(403);
  });
});

describe('POSTERN_CORS_ORIGINS', () => {
  const origin = 'https://ops.example';
  let frame: Frame;
  beforeAll(async () => (frame = await startFrame({ routes, config: { corsOrigins: [origin] } })));
  afterAll(() => frame[Symbol.asyncDispose]());

  it('lets the pages of a listed origin read answers', async () => {
    const response = await send(frame.url, 'get', '/v1/locks/a', (test) =>
      test.set({ Origin: origin, 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'cors' }),
    );
    expect(response.status).toBe(200);
    expect(response.headers).toMatchObject({ 'access-control-allow-origin': origin, vary: 'Origin' });
    expect(response.headers['access-control-expose-headers']).toContain('Trace-Id');
  });

  it('answers the question that a browser asks first', async () => {
    const response = await send(frame.url, 'options', '/v1/locks/a/acquire', (test) =>
      test
        .set('Origin', origin)
        .set('Access-Control-Request-Method', 'POST')
        .set('Access-Control-Request-Headers', 'lease-token'),
    );
    expect(response.status).toBe(204);
    expect(response.headers['access-control-allow-methods']).toBe('OPTIONS, POST');
    expect(response.headers['access-control-allow-headers']).toContain('Lease-Token');
    for (const name of ['If-Match', 'Guard']) expect(response.headers['access-control-allow-headers']).toContain(name);
  });

  it('refuses the others', async () => {
    const response = await send(frame.url, 'get', '/v1/locks/a', (test) => test.set('Origin', 'https://evil.example'));
    expect(response.status).toBe(403);
    expect(response.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('still wants a JSON type from web pages, which browsers do not send without asking', async () => {
    for (const type of ['application/x-www-form-urlencoded', 'text/plain']) {
      const response = await send(frame.url, 'post', '/v1/locks/a/acquire', (test) =>
        test.set('Origin', origin).set('Content-Type', type).send('{"waitMs":1}'),
      );
      expect(response.status).toBe(415);
    }
    expect(
      (await send(frame.url, 'post', '/v1/locks/a/acquire', (test) => test.set('Origin', origin).send({ waitMs: 1 })))
        .status,
    ).toBe(200);
  });
});

/** Of a page that the operator has named. */
const PAGE = 'https://ops.example';

describe('with API keys', () => {
  const keys = {
    keys: [
      {
        id: 'ci',
        hash: hashOf('ci-key'),
        principal: 'build',
        namespaces: { default: ['read'], prod: ['read', 'use'] },
      },
      { id: 'locks', hash: hashOf('locks-key'), namespaces: { '*': { lock: ['use'], lease: ['read'] } } },
      { id: 'root', hash: hashOf('root-key'), namespaces: '*' },
    ],
  };
  let frame: Frame;
  beforeAll(async () => {
    const config = { authFile: writeKeys('matrix.json', keys), corsOrigins: [PAGE] };
    frame = await startFrame({ routes, config });
  });
  afterAll(() => frame[Symbol.asyncDispose]());

  const acquireAs = (key: string | undefined, namespace?: string): ReturnType<typeof send> =>
    send(frame.url, 'post', '/v1/locks/a/acquire', (test) => {
      if (key !== undefined) test.set('Authorization', key);
      return namespace === undefined ? test : test.set('Namespace', namespace);
    });

  it.each([
    undefined,
    'Bearer',
    'Bearer ',
    'Bearer wrong',
    'Bearer ci-key extra',
    'Basic Y2kta2V5',
    `Bearer ${hashOf('ci-key')}`,
    'ci-key',
  ])('the Authorization header %j is 401', async (authorization) => {
    const response = await acquireAs(authorization);
    expect(response.status).toBe(401);
    expect(response.headers['www-authenticate']).toBe('Bearer realm="postern"');
    expect(response.text).not.toMatch(/ci-key|wrong/);
  });

  it.each([
    ['ci-key', undefined, 403],
    ['ci-key', 'prod', 200],
    ['ci-key', 'elsewhere', 403],
    ['ci-key', 'constructor', 403],
    ['locks-key', 'anywhere', 200],
    ['root-key', 'anywhere', 200],
  ])('the key %s in the namespace %s is %i', async (key, namespace, status) => {
    const response = await acquireAs(`Bearer ${key}`, namespace);
    expect(response.status).toBe(status);
    if (status === 403)
      expect(response.body).toMatchObject({
        code: 'forbidden',
        scope: 'use',
        kind: 'lock',
        namespace: namespace ?? 'default',
      });
  });

  const basic = `Basic ${Buffer.from('anybody:ci-key').toString('base64')}`;
  // A browser that was once given a password sends it by itself, whichever page asks.
  it.each([
    ['a page elsewhere', 403, { Origin: 'https://evil.example' }],
    ['a page without an origin', 403, { Origin: 'null' }],
    ['a form or an image in a page elsewhere', 403, { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'no-cors' }],
    ['no page', 200, {}],
    ['a page that the operator named', 200, { Origin: PAGE }],
  ])('a password from %s is answered with %i', async (_what, status, headers: Record<string, string>) => {
    const answer = (Authorization: string): ReturnType<typeof send> =>
      send(frame.url, 'post', '/v1/locks/a/acquire', (test) =>
        test.set({ Authorization, Namespace: 'prod', 'Content-Type': 'application/json', ...headers }).send({}),
      );
    expect(await answer(basic)).toMatchObject({ status, ...(status === 403 && { body: { code: 'forbidden' } }) });
    expect(await answer('Bearer ci-key')).toMatchObject({ status: 200 });
  });

  it('scopes are per kind', async () => {
    const response = await send(frame.url, 'get', '/v1/locks/a', (test) =>
      test.set('Authorization', 'bearer locks-key'),
    );
    expect(response.body).toMatchObject({ code: 'forbidden', scope: 'read', kind: 'lock' });
  });

  it('the principal is in the log, the key is not', async () => {
    await acquireAs('Bearer ci-key', 'prod');
    expect(frame.log().at(-1)).toMatchObject({ principal: 'build' });
    expect(JSON.stringify(frame.log())).not.toContain('ci-key');
  });

  it('what is public needs none, whatever the host', async () => {
    for (const path of ['/healthz', '/readyz', '/metrics', '/docs', '/openapi.yaml', '/problems/invalid']) {
      expect((await send(frame.url, 'get', path, (test) => test.set('Host', 'postern.example'))).status).toBe(200);
    }
    expect((await send(frame.url, 'get', '/v1/status')).status).toBe(401);
  });

  it('a stranger learns nothing from a bad request', async () => {
    for (const query of ['limit=0', 'colour=1', 'limit=1&limit=1', 'limit=%zz'])
      expect((await send(frame.url, 'get', `/v1/locks/%20?${query}`)).status).toBe(401);
  });
});

describe('the file of API keys', () => {
  const file = (id: string): unknown => ({ keys: [{ id, hash: hashOf(id), namespaces: '*' }] });
  const statusAs = async (frame: Frame, key: string): Promise<number> =>
    (await send(frame.url, 'get', '/v1/status', (test) => test.set('Authorization', `Bearer ${key}`))).status;

  it('is read again when it changes, and keeps the old keys when the new ones cannot be read', async () => {
    const authFile = writeKeys('changing.json', file('one'));
    await using frame = await startFrame({ config: { authFile }, authPollMs: timing.pollMs });
    expect(await statusAs(frame, 'one')).toBe(200);
    writeKeys('changing.json', file('two'));
    await eventually('the new key opens', async () => (await statusAs(frame, 'two')) === 200);
    expect(await statusAs(frame, 'one')).toBe(401);

    writeKeys('changing.json', '{"keys": [');
    await eventually('the fault is logged', () => frame.log().some(({ level }) => level === 'error'));
    expect(await statusAs(frame, 'two')).toBe(200);
    rmSync(authFile);
    await eventually('the loss is logged', () => frame.log().filter(({ level }) => level === 'error').length >= 2);
    expect(await statusAs(frame, 'two')).toBe(200);
  });

  it.each([
    ['it is not JSON', '{'],
    ['keys', {}],
    ['keys.0.hash', { keys: [{ id: 'a', hash: 'sha256:abc', namespaces: '*' }] }],
    ['keys.0.namespaces', { keys: [{ id: 'a', hash: hashOf('a'), namespaces: { default: ['write'] } }] }],
    ['keys.0', { keys: [{ id: 'a', hash: hashOf('a'), namespaces: '*', admin: true }] }],
    // What was meant to narrow locks would leave them to the scopes of `*`.
    [
      'keys.0.namespaces.prod.locks: there is no such kind',
      { keys: [{ id: 'a', hash: hashOf('a'), namespaces: { prod: { locks: ['read'], '*': ['use'] } } }] },
    ],
    [
      'the member "prod" is there twice',
      `{"keys": [{"id": "a", "hash": "${hashOf('a')}", "namespaces": {"prod": ["read"], "prod": ["admin"]}}]}`,
    ],
    ['twice', { keys: [1, 2].map(() => ({ id: 'a', hash: hashOf('a'), namespaces: '*' })) }],
    ['another one', { keys: ['a', 'b'].map((id) => ({ id, hash: hashOf('same'), namespaces: '*' })) }],
  ])('stops the start when it is wrong: %s', async (reason, content) => {
    const authFile = writeKeys('wrong.json', content);
    await expect(startFrame({ config: { authFile } })).rejects.toThrow(
      new RegExp(`^POSTERN_AUTH_FILE is .*${reason.replaceAll('.', '\\.')}`),
    );
  });

  it('stops the start when it is not there', async () => {
    await expect(startFrame({ config: { authFile: join(directory, 'absent') } })).rejects.toThrow(
      'it cannot be read (ENOENT).',
    );
  });

  it('takes the entries that make-key prints', async () => {
    const args = ['make-key', '--id', 'ci', '--namespaces', 'prod=read,use'];
    const output = execFileSync(process.execPath, [MAIN, ...args], { encoding: 'utf8' });
    const [key = '', ...entry] = output.split('\n');
    await using frame = await startFrame({
      routes,
      config: { authFile: writeKeys('made.json', `{"keys": [${entry.join('\n')}]}`) },
    });
    const statusIn = async (namespace: string): Promise<number> =>
      (
        await send(frame.url, 'get', '/v1/locks/a', (test) =>
          test.set('Authorization', `Bearer ${key}`).set('Namespace', namespace),
        )
      ).status;
    expect([await statusIn('prod'), await statusIn('default')]).toEqual([200, 403]);
  });
});
