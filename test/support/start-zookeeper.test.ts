import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createConnection } from 'node:net';
import { connect } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { fourLetterWord } from '../../scripts/lib/zookeeper.mjs';
import { makeCertificates } from './http/certificates.js';
import { eventually } from './eventually.js';
import { freshRoot, sharedZooKeeper, startEnsemble, startZooKeeper, type ZooKeeperNode } from './start-zookeeper.js';
import { timing } from './timing.js';

describe('the shared ZooKeeper', () => {
  it('serves', async () => {
    const port = Number(sharedZooKeeper().split(':')[1]);
    expect(await fourLetterWord(port, 'ruok')).toBe('imok');
  });

  it('gives every test a root of its own', () => {
    expect(freshRoot()).toMatch(/^\/t-[0-9a-f]{12}$/);
    expect(freshRoot()).not.toBe(freshRoot());
  });
});

describe('a ZooKeeper of a test', () => {
  it('survives a crash with its data directory and port, and leaves nothing behind', async () => {
    const zookeeper = await startZooKeeper({ config: { maxClientCnxns: '17' } });
    expect(await zookeeper.word('conf')).toContain('maxClientCnxns=17');
    await zookeeper.kill();
    expect(await zookeeper.node.mode()).toBeUndefined();
    await zookeeper.restart();
    expect(await zookeeper.node.mode()).toBe('standalone');
    await zookeeper.stop();
    expect(existsSync(zookeeper.dataDir)).toBe(false);
  });

  it('stands still while paused', async () => {
    await using zookeeper = await startZooKeeper();
    zookeeper.pause();
    await expect(zookeeper.word('ruok')).rejects.toThrow('no answer');
    zookeeper.resume();
    expect(await zookeeper.word('ruok')).toBe('imok');
  });

  it('answers through its proxy, until that is suspended', async () => {
    await using zookeeper = await startZooKeeper({ proxied: true });
    expect(zookeeper.connectString).toBe(zookeeper.proxy.connectString);
    expect(await fourLetterWord(zookeeper.proxy.port, 'ruok')).toBe('imok');
    zookeeper.proxy.suspend();
    await expect(fourLetterWord(zookeeper.proxy.port, 'ruok')).rejects.toThrow('no answer');
  });

  it('speaks TLS, and knows a client by its certificate', async () => {
    await using certificates = await makeCertificates();
    certificates.clientAuth = 'need';
    await using zookeeper = await startZooKeeper({ tls: certificates });
    const { ca, clientPfx: pfx, passphrase } = certificates;
    const socket = connect({ port: zookeeper.securePort, host: '127.0.0.1', ca, pfx, passphrase });
    await once(socket, 'secureConnect');
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
    socket.write('ruok');
    await eventually('the word is answered over TLS', () => answer === 'imok');
    socket.destroy();
  });
});

describe('an ensemble', { timeout: 5 * timing.processMs }, () => {
  it('elects another leader when the leader is killed, and takes it back', async () => {
    await using ensemble = await startEnsemble();
    const first = await ensemble.leader();
    expect((await ensemble.followers()).length).toBe(2);
    await first.kill();
    const second = await ensemble.leader();
    expect(second.id).not.toBe(first.id);
    await first.restart();
    expect(await first.mode()).toBe('follower');
  });

  it('lets a leader be isolated from the others and rejoin', async () => {
    await using ensemble = await startEnsemble({ proxiedPeers: true });
    const first = await ensemble.leader();
    ensemble.isolate(first.id);
    const electing = { withinMs: 2 * timing.processMs }; // servers that hardly get to run need several rounds: 5 s each
    await eventually('the others elect', async () => (await ensemble.leader()).id !== first.id, electing);
    ensemble.rejoin(first.id);
    await eventually('it follows', async () => (await first.mode()) === 'follower', electing);
  });

  it('lets a follower lag behind the leader', async () => {
    await using ensemble = await startEnsemble({ proxiedPeers: true });
    const leader = await ensemble.leader();
    const [laggard, other] = await ensemble.followers();
    if (!laggard || !other) throw new Error('an ensemble of three has two followers');
    ensemble.lag(laggard.id, 2_500);
    const before = await zxidOf(laggard);
    await openSession(leader.port);
    await eventually('the other follower has it', async () => (await zxidOf(other)) > before);
    expect(await zxidOf(laggard)).toBe(before);
    await eventually('the laggard gets it in the end', async () => (await zxidOf(laggard)) > before);
  });
});

async function zxidOf(node: ZooKeeperNode): Promise<number> {
  const zxid = /^Zxid: (0x[0-9a-f]+)$/m.exec(await node.word('srvr'))?.[1];
  if (zxid === undefined) throw new Error(`server ${node.id} tells no zxid`);
  return Number(zxid);
}

/**
 * The smallest write there is: a session. The handshake has version, zxid, timeout, session id, password, read-only.
 */
async function openSession(port: number): Promise<void> {
  const handshake = Buffer.alloc(4 + 45);
  handshake.writeInt32BE(45, 0);
  handshake.writeInt32BE(4_000, 4 + 12);
  handshake.writeInt32BE(16, 4 + 24);
  const socket = createConnection({ port, host: '127.0.0.1' });
  socket.write(handshake);
  await once(socket, 'data');
  socket.destroy();
}
