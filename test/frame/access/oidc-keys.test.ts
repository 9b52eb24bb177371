/** The keys of an identity provider: read from it or from a file, again when they change, and never too often. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { IdentityProvider, makeSigningKey } from '../../support/http/identity-provider.js';
import { scaled, timing } from '../../support/timing.js';
import { start, READER, askAs, EVERYTHING, writeFile } from './oidc.js';

const directory = mkdtempSync(join(tmpdir(), 'postern-oidc-'));

describe('the keys of the identity provider', () => {
  it('change without a restart: a new one is found by its first token, one that was taken back stops to count', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider);
    const before = await provider.sign(READER);
    expect((await askAs(frame, before)).status).toBe(200);
    const second = await makeSigningKey('second');
    provider.publish(second);
    expect((await askAs(frame, before)).status).toBe(200); // nobody knows yet
    expect((await askAs(frame, await provider.sign({ ...READER, sub: 'bob' }))).status).toBe(200);
    expect((await askAs(frame, before)).status).toBe(401); // the keys are others now
  });

  it('are read again by themselves', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider, {}, { oidcRefreshMs: timing.pollMs });
    const before = await provider.sign(READER);
    expect((await askAs(frame, before)).status).toBe(200);
    provider.publish(await makeSigningKey('second'));
    await eventually('the old key is gone', async () => (await askAs(frame, before)).status === 401);
  });

  it('are asked for once in a pause, however many unknown key ids come', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider, {}, { oidcPauseMs: 60_000 });
    expect((await askAs(frame, await provider.sign(READER))).status).toBe(200);
    const { asked } = provider;
    const strangers = await Promise.all([1, 2, 3, 4, 5].map((n) => makeSigningKey(`stranger ${n}`)));
    for (const key of strangers)
      expect((await askAs(frame, await provider.sign(EVERYTHING, { key }))).body).toMatchObject({ status: 401 });
    expect(provider.asked).toBe(asked);
  });

  it('stay in use while the provider is away; an unknown key id is 401', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider);
    expect((await askAs(frame, await provider.sign(READER))).status).toBe(200);
    const fresh = await provider.sign({ ...READER, sub: 'bob' });
    provider.down = true;
    expect((await askAs(frame, fresh)).status).toBe(200);
    const stranger = await makeSigningKey('stranger');
    expect((await askAs(frame, await provider.sign(EVERYTHING, { key: stranger }))).status).toBe(401);
    expect(frame.log().some(({ level, msg }) => level === 'warn' && /keeping the known ones/.test(String(msg)))).toBe(
      true,
    );
  });

  it('that could never be read are 503 until they can, while API keys work', async () => {
    await using provider = await IdentityProvider.start();
    provider.down = true;
    await using keys = await makeApiKeys({ root: '*' });
    await using frame = await start(provider, { authFile: keys.file });
    const token = await provider.sign(READER);
    const response = await askAs(frame, token);
    expect(response.status).toBe(503);
    expect(response.body).toMatchObject({
      code: 'identity-provider-unavailable',
      retryable: true,
      outcome: 'not-applied',
    });
    expect(response.headers['retry-after']).toBe('1');
    await using root = keys.as('root', frame.url);
    expect((await askAs(frame, root.key)).status).toBe(200);
    provider.down = false;
    expect((await askAs(frame, token)).status).toBe(200);
  });

  it('are waited for no longer than a request may take, while known tokens are answered', async () => {
    await using provider = await IdentityProvider.start();
    const releaseFirst = provider.hold();
    await using frame = await start(provider, { requestTimeoutMs: scaled(300) });
    const token = await provider.sign(READER);
    const late = {
      status: 503,
      body: {
        code: 'identity-provider-unavailable',
        detail: expect.stringContaining('in the time that a request has') as string,
        retryable: true,
      },
    };
    expect(await askAs(frame, token)).toMatchObject(late); // no keys yet
    releaseFirst();
    await eventually('the keys come after all', async () => (await askAs(frame, token)).status === 200);
    expect(provider.asked).toBe(1);

    const second = await makeSigningKey('second');
    const newer = await provider.sign({ ...READER, sub: 'bob' }, { key: second });
    const releaseSecond = provider.hold();
    expect(await askAs(frame, newer)).toMatchObject(late); // an unknown key id
    expect((await askAs(frame, token)).status).toBe(200);
    provider.publish(second);
    releaseSecond();
    await eventually('the newer key comes too', async () => (await askAs(frame, newer)).status === 200);
    expect(provider.asked).toBe(2);
    expect(frame.log().filter(({ level }) => level === 'warn')).toEqual([]);
  });

  it('are not taken from a discovery document of another issuer', async () => {
    await using provider = await IdentityProvider.start();
    provider.discovered = 'https://evil.example';
    await using frame = await start(provider);
    expect((await askAs(frame, await provider.sign(READER))).status).toBe(503);
    expect(provider.asked).toBe(0);
  });

  it('stay in use when the provider shows none at all', async () => {
    await using provider = await IdentityProvider.start();
    await using frame = await start(provider, {}, { oidcRefreshMs: timing.pollMs });
    const before = provider.sign(READER);
    expect((await askAs(frame, await before)).status).toBe(200);
    const fresh = await provider.sign({ ...READER, sub: 'bob' });
    const { asked } = provider;
    provider.publish();
    await eventually(
      'the empty set was read',
      () =>
        provider.asked > asked &&
        frame.log().some(({ err }) => JSON.stringify(err ?? '').includes('the key set is empty')),
    );
    expect((await askAs(frame, fresh)).status).toBe(200);
  });

  it('are followed to another path of the provider, and to no other origin', async () => {
    await using provider = await IdentityProvider.start();
    provider.redirect = '/moved';
    await using frame = await start(provider);
    expect((await askAs(frame, await provider.sign(READER))).status).toBe(200);

    await using elsewhere = await IdentityProvider.start();
    const key = await makeSigningKey('of a stranger');
    elsewhere.publish(key);
    provider.redirect = elsewhere.jwksUrl;
    await using misled = await start(provider);
    expect((await askAs(misled, await provider.sign(EVERYTHING, { key }))).status).toBe(503);
    expect(elsewhere.asked).toBe(0);
    expect(JSON.stringify(misled.log())).toContain('which is another origin');
  });

  it('come from an address, or from a file that is read again when it changes', async () => {
    await using provider = await IdentityProvider.start();
    provider.discovered = 'not asked for';
    await using atAddress = await start(provider, { oidcJwks: provider.jwksUrl });
    expect((await askAs(atAddress, await provider.sign(READER))).status).toBe(200);

    const oidcJwks = writeFile('keys.json', provider.keySet);
    await using frame = await start(provider, { oidcJwks });
    expect((await askAs(frame, await provider.sign(READER))).status).toBe(200);
    provider.publish(await makeSigningKey('second'));
    const token = await provider.sign(READER);
    expect((await askAs(frame, token)).status).toBe(401);
    writeFile('keys.json', provider.keySet);
    await eventually('the new key is read', async () => (await askAs(frame, token)).status === 200);
    writeFile('keys.json', '{');
    await eventually('the fault is logged', () => frame.log().some(({ level }) => level === 'error'));
    expect((await askAs(frame, await provider.sign({ ...READER, sub: 'bob' }))).status).toBe(200);
    await expect(start(provider, { oidcJwks: join(directory, 'absent') })).rejects.toThrow(/^POSTERN_OIDC_JWKS is /);
  });
});
