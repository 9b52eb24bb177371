import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { expect, test } from 'vitest';
import { Postern, type PosternError } from '../../src/client/index.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { CertificateAuthority } from '../support/http/certificate-authority.js';
import { freePort } from '../support/free-port.js';
import { startReplica } from '../support/start-gateway.js';

const TTL_MS = 3_000;

const failure = (error: unknown): PosternError => error as PosternError;

test('shows its certificate, and trusts no other authority than it is told to', async () => {
  await using replica = await startReplica();
  const authority = new CertificateAuthority('Postern test authority');
  const front = createServer(
    { ...authority.issue('gateway'), ca: authority.cert, requestCert: true, rejectUnauthorized: true },
    (socket) => {
      const inner = connect(Number(new URL(replica.url).port), '127.0.0.1');
      for (const one of [socket, inner]) one.on('error', () => inner.destroy());
      socket.pipe(inner).pipe(socket);
    },
  );
  front.on('tlsClientError', () => {});
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const urls = [`https://127.0.0.1:${(front.address() as AddressInfo).port}`];
  const options = { urls, ttlMs: TTL_MS, patienceMs: 0 };
  const ca = authority.cert;
  try {
    await using known = new Postern({ ...options, tls: { ca, ...authority.issue('worker') } });
    expect(await known.lock(randomUUID()).using({}, ({ signal }) => signal.aborted)).toBe(false);
    for (const tls of [{ ca }, authority.issue('worker')]) {
      await using unknown = new Postern({ ...options, tls });
      const refused = await unknown.lock('x').acquire().catch(failure);
      expect(refused).toMatchObject({ code: 'unreachable', status: 0, retryable: true });
    }
  } finally {
    front.close();
  }
});

test('asks for the credential each time, so that it can change', async () => {
  await using keys = await makeApiKeys({ old: { default: ['use'] }, new: { default: ['use'] } }, () => 'worker');
  await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
  const [first, second] = ['old', 'new'].map((id) => keys.as(id, replica.url).key);
  let credential = first as string;
  await using postern = new Postern({ urls: [replica.url], ttlMs: TTL_MS, credential: () => credential });
  const hold = await postern.lock(randomUUID()).acquire();
  credential = 'nonsense';
  expect(await postern.counter('x').add().catch(failure)).toMatchObject({ code: 'unauthenticated', status: 401 });
  credential = second as string;
  await hold.release();
});

test('asks the next replica when one does not answer, and says when none does', async () => {
  await using replica = await startReplica();
  const nobody = `http://127.0.0.1:${await freePort()}`;
  for (let round = 0; round < 5; round += 1) {
    await using postern = new Postern({ urls: [nobody, replica.url], ttlMs: TTL_MS });
    await postern.lock('x').using({}, ({ signal }) => expect(signal.aborted).toBe(false));
  }
  await using alone = new Postern({ urls: [nobody], ttlMs: TTL_MS, patienceMs: 300 });
  const refused = await alone.lock('x').acquire().catch(failure);
  expect(refused).toMatchObject({ code: 'unreachable', outcome: 'not-applied', retryable: true });
});
