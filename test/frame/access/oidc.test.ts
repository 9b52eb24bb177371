/** Tokens of an identity provider as credentials: real keys and signatures, a real provider over HTTP. */
import { createHash, createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../../src/config.js';
import { createAuthentication } from '../../../src/http/access/auth.js';
import { createLog } from '../../../src/log.js';
import { KeyedClient, makeApiKeys } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { IdentityProvider, makeSigningKey } from '../../support/http/identity-provider.js';
import { startPair } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { send } from '../client.js';
import type { Frame } from '../harness.js';
import { start, READER, askAs, EVERYTHING, writeFile } from './oidc.js';

const now = (): number => Math.floor(Date.now() / 1000);

describe('a token of the identity provider', () => {
  let provider: IdentityProvider;
  let frame: Frame;
  beforeAll(async () => {
    provider = await IdentityProvider.start();
    frame = await start(provider);
  });
  afterAll(async () => {
    await frame[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  });

  it('is a credential, whose principal and scopes its claims say', async () => {
    const response = await askAs(frame, await provider.sign(READER));
    expect(response.status).toBe(200);
    expect(frame.log().at(-1)).toMatchObject({ principal: 'oidc~alice', status: 200 });
    const narrowed = await provider.sign({ postern: { default: { lock: { scopes: ['read'], names: ['mine.*'] } } } });
    expect((await askAs(frame, narrowed, 'mine.x')).status).toBe(200);
    expect((await askAs(frame, narrowed, 'theirs')).body).toMatchObject({ status: 403, kind: 'lock', name: 'theirs' });
  });

  it('that says nothing of scopes is known and may do nothing', async () => {
    expect((await askAs(frame, await provider.sign({}))).body).toMatchObject({ status: 403, code: 'forbidden' });
  });

  it.each(['RS256', 'ES256', 'EdDSA'] as const)('is read with %s', async (alg) => {
    const key = await makeSigningKey(`of ${alg}`, alg);
    provider.publish(key);
    expect((await askAs(frame, await provider.sign(READER, { key }))).status).toBe(200);
  });

  it.each([
    ['alice@example.org', 'oidc~alice~40example.org'],
    ['auth0|12~3', 'oidc~auth0~7C12~7E3'],
    ['system:serviceaccount:shop:worker', 'oidc~system~3Aserviceaccount~3Ashop~3Aworker'],
    ['Zoë', 'oidc~Zo~C3~AB'],
  ])('makes of the subject %s the principal %s', async (sub, principal) => {
    expect((await askAs(frame, await provider.sign({ ...READER, sub }))).status).toBe(200);
    expect(frame.log().at(-1)).toMatchObject({ principal });
  });

  it.each([
    ['has expired', {}, { exp: now() - 60 }, 'expired'],
    ['never expires', {}, { exp: null }, '"exp"'],
    ['is not valid yet', { nbf: now() + 120 }, {}, 'not valid yet'],
    ['is for another audience', { aud: 'other' }, {}, '"aud"'],
    ['is of another issuer', { iss: 'https://evil.example' }, {}, '"iss"'],
    ['has no subject', { sub: '' }, {}, '"sub"'],
    ['has a subject that is too long', { sub: '@'.repeat(100) }, {}, '"sub"'],
    // Both would be written with the replacement character, and be one principal.
    ['has half a character in its subject', { sub: 'a\ud800' }, {}, '"sub"'],
    ['tells of a logout', {}, { typ: 'logout+jwt' }, '"typ"'],
    ['has a number for its type', {}, { typ: 5 }, '"typ"'],
    ['has no type where one is named', {}, { typ: null }, '"typ"'],
    ['has a list of types', {}, { typ: ['jwt'] }, '"typ"'],
    ['tells of a logout and does not say so in its header', { events: {} }, {}, '"events"'],
    ['is bound to a key', { cnf: { jkt: 'x' } }, {}, '"cnf"'],
    ['holds a kind that is none', { postern: { default: { locks: ['read'], '*': ['use'] } } }, {}, '"postern"'],
    ['holds scopes that are none', { postern: { default: ['write'] } }, {}, '"postern"'],
  ])('that %s is 401', async (_, claims, options, reason) => {
    const response = await askAs(frame, await provider.sign({ ...EVERYTHING, ...claims }, options));
    expect(response.status).toBe(401);
    expect(response.body).toMatchObject({ code: 'unauthenticated' });
    expect(response.body.detail).toContain(reason);
    expect(response.headers['www-authenticate']).toBe('Bearer realm="postern"');
  });

  it.each(['JWT', 'jwt', 'at+jwt', 'application/at+jwt'])('may call itself %s', async (typ) => {
    expect((await askAs(frame, await provider.sign(READER, { typ }))).status).toBe(200);
  });

  it('may be off by as much as clocks are', async () => {
    expect((await askAs(frame, await provider.sign(READER, { exp: now() - 5 }))).status).toBe(200);
    expect((await askAs(frame, await provider.sign({ ...READER, nbf: now() + 5 }))).status).toBe(200);
  });

  it('that was changed, signed by a stranger, by a shared secret or not at all is 401', async () => {
    const [header, payload, signature] = (await provider.sign(READER)).split('.') as [string, string, string];
    const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const everything = encode({
      ...(JSON.parse(Buffer.from(payload, 'base64url').toString()) as object),
      ...EVERYTHING,
    });
    const known = provider.keySet.keys[0] as { kid: string };
    const stranger = await makeSigningKey(known.kid, 'RS256');
    const sharedHead = `${encode({ alg: 'HS256', kid: known.kid })}.${everything}`;
    const wrong = [
      `${header}.${everything}.${signature}`,
      `${header}.${payload}.${signature.slice(0, -6)}AAAAAA`,
      `${header}.${payload}.AAAA`,
      `${encode({ alg: 'none' })}.${everything}.x`,
      `${sharedHead}.${createHmac('sha256', JSON.stringify(known)).update(sharedHead).digest('base64url')}`,
      await provider.sign(EVERYTHING, { key: stranger }),
      'a.b.c',
    ];
    for (const token of wrong) {
      const response = await askAs(frame, token);
      expect([token, response.status]).toEqual([token, 401]);
      expect(response.text).not.toContain(token.slice(0, 20));
    }
    expect((await askAs(frame, `${header}.${payload}`)).body.detail).toContain('no token');
  });

  it('is never in the log', async () => {
    const token = await provider.sign(READER);
    await askAs(frame, token);
    await askAs(frame, `${token}x`);
    const log = JSON.stringify(frame.log());
    for (const part of token.split('.').slice(1)) expect(log).not.toContain(part);
  });
});

describe('a token that was verified', () => {
  it('is known at once from then on, as an API key always is; many requests with a new one verify it once', async () => {
    await using provider = await IdentityProvider.start();
    await using keys = await makeApiKeys({ root: '*' });
    await using root = keys.as('root', provider.issuer);
    const settings = {
      POSTERN_AUTH_FILE: keys.file,
      POSTERN_OIDC_ISSUER: provider.issuer,
      POSTERN_OIDC_AUDIENCE: provider.audience,
    };
    const authentication = createAuthentication({
      config: loadConfig(settings).config,
      logger: createLog({ logLevel: 'silent' }).logger,
    });
    const askWith = (bearer: string): unknown => authentication.authenticate({ authorization: `Bearer ${bearer}` });
    expect(askWith(root.key)).toMatchObject({ principal: { id: 'root' } });
    const token = await provider.sign(READER);
    const first = askWith(token);
    expect(first).toBeInstanceOf(Promise);
    expect(askWith(token)).toBe(first);
    const credential = await first;
    expect(credential).toMatchObject({ principal: { id: 'oidc~alice' } });
    expect(askWith(token)).toBe(credential);
    authentication.close();
  });

  it('is remembered until it expires, and no longer', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider);
    const exp = now() - 30 + scaled(4); // within the tolerance for four seconds more
    const token = await provider.sign(READER, { exp });
    const answers = await Promise.all(Array.from({ length: 20 }, () => askAs(frame, token)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    await eventually('it has expired', async () => (await askAs(frame, token)).status === 401);
    expect(Date.now()).toBeGreaterThanOrEqual((exp + 30) * 1000);
  });
});

describe('the rules for tokens', () => {
  const rules = {
    rules: [
      { when: {}, namespaces: { lobby: ['read'] } },
      { when: { groups: ['platform', 'sre-*'] }, namespaces: { prod: ['read'] } },
      { when: { 'realm_access.roles': 'ops', sub: 'alice' }, namespaces: { ops: ['read'] } },
    ],
  };
  const statusIn = async (frame: Frame, token: string, namespace: string): Promise<number> =>
    (
      await send(frame.url, 'get', '/v1/locks/a', (test) =>
        test.set('Authorization', `Bearer ${token}`).set('Namespace', namespace),
      )
    ).status;

  it('give scopes by claims, add up, and are read again when they change', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider, { oidcRules: writeFile('rules.json', rules) });
    const allowed = async (claims: Record<string, unknown>): Promise<string[]> => {
      const token = await provider.sign(claims);
      const answers: string[] = [];
      for (const namespace of ['lobby', 'prod', 'ops', 'own'])
        if ((await statusIn(frame, token, namespace)) === 200) answers.push(namespace);
      return answers;
    };
    expect(await allowed({})).toEqual(['lobby']);
    expect(await allowed({ groups: 'platform' })).toEqual(['lobby', 'prod']);
    expect(await allowed({ groups: ['x', 'sre-emea'], postern: { own: ['read'] } })).toEqual(['lobby', 'prod', 'own']);
    expect(await allowed({ groups: ['platforms'] })).toEqual(['lobby']);
    expect(await allowed({ realm_access: { roles: ['ops'] } })).toEqual(['lobby', 'ops']);
    expect(await allowed({ realm_access: { roles: ['ops'] }, sub: 'bob' })).toEqual(['lobby']);

    const token = await provider.sign({ groups: 'platform' });
    expect(await statusIn(frame, token, 'prod')).toBe(200);
    writeFile('rules.json', { rules: [] });
    await eventually('the rules are read', async () => (await statusIn(frame, token, 'prod')) === 403);
    writeFile('rules.json', { rules: [{ when: 1 }] });
    await eventually('the fault is logged', () => frame.log().some(({ level }) => level === 'error'));
    expect(await statusIn(frame, token, 'prod')).toBe(403);
  });

  it('stop the start when they are wrong', async () => {
    await using provider = await IdentityProvider.start();
    for (const wrong of ['{', { rules: [{ namespaces: '*' }] }, { rules: [{ when: { a: [] }, namespaces: '*' }] }])
      await expect(start(provider, { oidcRules: writeFile('wrong.json', wrong) })).rejects.toThrow(
        /^POSTERN_OIDC_RULES is /,
      );
  });
});

describe('tokens and API keys together', () => {
  it('are told apart, and no token is ever the principal of an API key', async () => {
    await using provider = await IdentityProvider.start();
    const dotted = 'aaaa.bbbb.cccc';
    const entry = (id: string, key: string, principal: string): unknown => ({
      id,
      hash: `sha256:${createHash('sha256').update(key).digest('hex')}`,
      principal,
      namespaces: '*',
    });
    const authFile = writeFile('both.json', {
      keys: [
        entry('one', 'key-of-alice', 'alice'),
        entry('two', dotted, 'dotted'),
        entry('on-purpose', 'same', 'oidc~alice'),
      ],
    });
    await using pair = await startPair({
      settings: {
        POSTERN_AUTH_FILE: authFile,
        POSTERN_OIDC_ISSUER: provider.issuer,
        POSTERN_OIDC_AUDIENCE: `other,${provider.audience}`,
      },
    });
    await using byKey = new KeyedClient(pair.a.url, 'key-of-alice');
    await using byDotted = new KeyedClient(pair.a.url, dotted);
    await using byToken = new KeyedClient(pair.a.url, await provider.sign(EVERYTHING));
    await using later = new KeyedClient(pair.b.url, await provider.sign({ ...EVERYTHING, jti: 'another token' }));
    await using onPurpose = new KeyedClient(pair.b.url, 'same');
    const lease = await byToken.createLease({ ttlMs: 20_000 });
    const { fencingToken } = await byToken.hold('held', lease);
    for (const client of [byKey, byDotted])
      expect((await client.heartbeat(lease)).body).toMatchObject({ status: 403, code: 'invalid-lease-token' });
    // Another token of the same subject, at another replica: the same principal.
    expect(await later.hold('held', lease)).toMatchObject({ fencingToken, alreadyHeld: true });
    expect((await later.showLock('held')).holders).toMatchObject([{ principal: 'oidc~alice' }]);
    expect((await onPurpose.heartbeat(lease)).status).toBe(200);
    await later.endLease(lease);
    await using stranger = new KeyedClient(pair.b.url, 'no-such-key');
    expect((await stranger.call('GET', '/v1/status')).status).toBe(401);
  });
});
