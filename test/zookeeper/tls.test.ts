/** TLS and addresses: what the library cannot do at all (defect 24). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LeaseExpiredError } from '../../src/errors.js';
import { wasRefused, type LeaseSession } from '../../src/zookeeper/lease-session.js';
import { makeCertificates, type Certificates } from '../support/http/certificates.js';
import { eventually } from '../support/eventually.js';
import { FakeServer } from '../support/zookeeper/fake-server.js';
import { startZooKeeper, type TestZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import { whoAmI } from '../support/zookeeper/instruments.js';
import { TestControl, attachLease, openLease, rejection, within } from '../support/zookeeper/sessions.js';

/** More than one test has, even if the server has not noticed yet that some are closed. */
const CONNECTIONS_MAX = 8;

describe('a ZooKeeper with TLS', () => {
  let certificates: Certificates;
  let zookeeper: TestZooKeeper;
  let address: string;
  beforeAll(async () => {
    certificates = await makeCertificates();
    certificates.clientAuth = 'need';
    zookeeper = await startZooKeeper({ tls: certificates, config: { maxClientCnxns: String(CONNECTIONS_MAX) } });
    address = `127.0.0.1:${zookeeper.securePort}`;
  }, timing.processMs);
  afterAll(async () => {
    await zookeeper.stop();
    await certificates[Symbol.asyncDispose]();
  });
  const trusted = () => ({
    tls: { ca: certificates.ca, pfx: certificates.clientPfx, passphrase: certificates.passphrase },
  });

  it('is spoken to by control and lease sessions, and knows them by their certificate (defect 24)', async () => {
    await using control = await TestControl.open(address, {}, trusted());
    await control.ensurePath('/n');
    expect(await control.submit(whoAmI())).toContainEqual({ scheme: 'x509', user: 'CN=postern' });
    const lease = await openLease(address, {}, trusted());
    await lease.create('/n/mine', undefined, { mode: 'ephemeral' });
    lease.detach();
    const again = await attachLease(address, lease.identity, {}, trusted());
    await again.close();
    expect(await control.exists('/n/mine')).toBeUndefined();
    expect(await rejection(attachLease(address, lease.identity, {}, trusted()))).toBeInstanceOf(LeaseExpiredError);
  });

  it('is not spoken to when its certificate is not trusted, nor without one of ours, nor in plain text', async () => {
    const options = { deadline: within() };
    const untrusted = await rejection(openLease(address, options, { tls: {} }));
    expect(untrusted).toMatchObject({ code: 'zookeeper-unavailable' });
    expect(String(untrusted.cause)).toMatch(/certificate/);
    expect(wasRefused(untrusted)).toBe(false);
    expect(await rejection(openLease(address, options, { tls: { ca: certificates.ca } }))).toMatchObject({
      code: 'zookeeper-unavailable',
    });
    expect(await rejection(openLease(address, options))).toMatchObject({ code: 'zookeeper-unavailable' });
  });

  it('that has enough connections is recognised', async () => {
    // The server may not have noticed yet that the tests before this one have closed theirs.
    const open: LeaseSession[] = [];
    // Nobody sends their heartbeats, and a busy machine takes its time to open them all.
    const options = { timeoutMs: timing.processMs };
    while (open.length < CONNECTIONS_MAX)
      open.push(await eventually('there is a place', () => openLease(address, options, trusted())));
    expect(wasRefused(await rejection(openLease(address, {}, trusted())))).toBe(true);
    for (const lease of open) await lease.close();
  });
});

describe('a ZooKeeper with an IPv6 address', () => {
  it('is found: the colons of the address are not taken for the port (defect 24)', async () => {
    await using server = await FakeServer.start({ host: '::1' });
    expect(server.connectString).toBe(`[::1]:${server.port}`);
    await using control = await TestControl.open(`${server.connectString}/chroot`);
    await control.exists('/n', within());
    expect(server.received[0]?.path).toBe('/chroot/n');
  });
});
