/** What the public may see never shows a session id or anything from which one follows (protocol C9). */
import { expect, it } from 'vitest';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair } from '../../../support/start-gateway.js';
import { startZooKeeper } from '../../../support/start-zookeeper.js';

/** All ways in which eight bytes are commonly written. */
function spellingsOf(session: bigint): string[] {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, session));
  const reversed = Buffer.from(bytes).reverse();
  return [
    session.toString(),
    BigInt.asUintN(64, session).toString(),
    session.toString(16),
    bytes.toString('hex'),
    reversed.toString('hex'),
    session.toString(36),
    ...[bytes, reversed].flatMap((form) => [
      form.toString('base64url').slice(0, 10),
      form.toString('base64').slice(0, 10),
    ]),
  ];
}

/** Whatever in the text may be encoded bytes. */
function decodedPartsOf(text: string): Buffer[] {
  const words = text.match(/[A-Za-z0-9_+/=-]{8,}/g) ?? [];
  return words.flatMap((word) => [
    Buffer.from(word, 'hex'),
    ...[0, 1, 2, 3].map((skip) => Buffer.from(word.slice(skip), 'base64')),
  ]);
}

it('no public answer shows a session id, in any spelling', async () => {
  await using zookeeper = await startZooKeeper();
  await using pair = await startPair({ zookeeper: zookeeper.connectString });
  const [holder, waiter] = await Promise.all([
    pair.a.createLease({ ttlMs: 20_000, label: 'holder' }),
    pair.b.createLease({ ttlMs: 20_000, label: 'waiter' }),
  ]);
  const hold = await pair.a.hold('public', holder);
  await pair.b.acquire('public', waiter, { keepPlace: true });

  const known = `${await zookeeper.word('dump')}\n${await zookeeper.word('cons')}`;
  const sessions = [...new Set(known.match(/0x(?!f{16})[0-9a-f]{12,16}/g))].map(BigInt);
  expect(sessions.length).toBeGreaterThanOrEqual(4); // of two replicas and two leases

  await using events = await EventReader.open(pair.b.url, '/v1/locks/public/events');
  const answers = [
    await pair.a.call('GET', '/v1/locks/public'),
    await pair.b.call('GET', '/v1/locks'),
    await pair.a.call('GET', '/v1/locks/public/waiters'),
    await pair.b.acquire('public', waiter),
    await pair.a.call('GET', '/v1/leases'),
    await pair.b.call('GET', `/v1/leases/${holder.leaseId}`),
    await pair.a.call('GET', '/v1/status'),
    await pair.a.call('GET', '/metrics'),
    await pair.a.showLease(holder),
    (await events.next()).data as unknown,
    { holder, waiter, hold },
  ].map((answer) => JSON.stringify(answer));
  expect(answers[0]).toContain(holder.leaseId);

  for (const session of sessions) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(BigInt.asUintN(64, session));
    const reversed = Buffer.from(bytes).reverse();
    for (const answer of answers) {
      for (const spelling of spellingsOf(session)) expect(answer.toLowerCase()).not.toContain(spelling.toLowerCase());
      for (const part of decodedPartsOf(answer))
        expect(part.includes(bytes) || part.includes(reversed), answer).toBe(false);
    }
  }
  // The check itself: it would find one that is there.
  const planted = Buffer.alloc(8);
  planted.writeBigUInt64BE(BigInt.asUintN(64, sessions[0]!));
  expect(
    decodedPartsOf(`{"id":"${Buffer.concat([Buffer.from('hold'), planted]).toString('base64url')}"}`).some((part) =>
      part.includes(planted),
    ),
  ).toBe(true);
});
