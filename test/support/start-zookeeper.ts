/**
 * Real ZooKeeper servers for tests: one, or an ensemble, on loopback, each to be killed, paused and restarted.
 *
 *   await using zookeeper = await startZooKeeper();
 *   await using ensemble = await startEnsemble({ proxied: true });
 *
 * Most tests need no server of their own: {@link sharedZooKeeper} is one per run, and {@link freshRoot} keeps them
 * apart.
 */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { inject } from 'vitest';
import { eventually } from './eventually.js';
import { PeerLinks, serverLines } from './zookeeper/peer-links.js';
import { startTcpProxy, type TcpProxy } from './zookeeper/tcp-proxy.js';
import { timing } from './timing.js';
import {
  launch,
  withFreePorts,
  ZooKeeperNode,
  type Mode,
  type NodePorts,
  type StartOptions,
} from './zookeeper/node.js';

export { ZooKeeperNode, type Mode, type StartOptions };

/**
 * By default a server that lost an election round waits up to a minute before it asks again, and 5 s for a connection.
 */
const QUICK_ELECTIONS = ['-Dzookeeper.fastleader.maxNotificationInterval=1000', '-Dzookeeper.cnxTimeout=1000'];

/**
 * A follower's answer to its leader's ping, with no session to report: QuorumPacket of type 5, zxid 0, no data, no
 * authinfo.
 */
const FOLLOWER_HEARTBEAT = Buffer.from('00000005000000000000000000000000ffffffff', 'hex');

export interface EnsembleOptions extends StartOptions {
  servers?: number;
  /** Lines of zoo.cfg of one server, numbered from 1; the others are as `config` says. */
  configOf?: (id: number) => Record<string, string>;
  /** The servers talk to each other through proxies: `isolate`, `rejoin` and `lag` work. */
  proxiedPeers?: boolean;
}

/** The connect string of the server that all tests of this run share. */
export function sharedZooKeeper(): string {
  return inject('zookeeper');
}

/** A path under which nothing has ever been: what keeps tests on a shared server apart. */
export function freshRoot(): string {
  return `/t-${randomBytes(6).toString('hex')}`;
}

/** One standalone server. */
export async function startZooKeeper(options: StartOptions = {}): Promise<TestZooKeeper> {
  const zookeeper = await withFreePorts(1, (dir, ports) => new TestZooKeeper(dir, ports, options));
  await zookeeper.start();
  return zookeeper;
}

/** An ensemble; resolves when every server serves. */
export async function startEnsemble(options: EnsembleOptions = {}): Promise<TestEnsemble> {
  const ensemble = await withFreePorts(options.servers ?? 3, (dir, ports) => new TestEnsemble(dir, ports, options));
  await ensemble.start();
  return ensemble;
}

/** What a standalone server and an ensemble have in common: nodes, a directory, an end. */
abstract class Servers implements AsyncDisposable {
  readonly nodes: readonly ZooKeeperNode[];

  protected constructor(
    readonly dataDir: string,
    nodes: readonly ZooKeeperNode[],
    protected readonly options: StartOptions,
  ) {
    this.nodes = nodes;
  }

  /** `host:port,host:port`, through the proxies if there are any. */
  get connectString(): string {
    return this.nodes.map((node) => node.connectString).join(',');
  }

  async start(): Promise<void> {
    try {
      await this.beforeStart();
      await Promise.all(this.nodes.map((node) => node.start()));
      await Promise.all(this.nodes.map((node) => node.ready()));
      if (this.options.proxied) for (const node of this.nodes) node.proxy = await startTcpProxy({ port: node.port });
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map(async (node) => node.proxy?.stop()));
    // Killed, not stopped: nothing of it is needed any more.
    await Promise.all(this.nodes.map(async (node) => node.running && node.kill()));
    await rm(this.dataDir, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  protected beforeStart(): Promise<void> {
    return Promise.resolve();
  }
}

export class TestZooKeeper extends Servers {
  readonly node: ZooKeeperNode;

  constructor(dataDir: string, [ports]: readonly NodePorts[], options: StartOptions) {
    if (!ports) throw new Error('a server needs ports');
    const { client, secure } = ports;
    const node = new ZooKeeperNode(1, client, options.tls && secure, () =>
      launch(join(dataDir, 'server-1'), ports, options, {}),
    );
    super(dataDir, [node], options);
    this.node = node;
  }

  get port(): number {
    return this.node.port;
  }

  get securePort(): number | undefined {
    return this.node.securePort;
  }

  /** The proxy that clients go through; only with `proxied: true`. */
  get proxy(): TcpProxy {
    if (!this.node.proxy) throw new Error('start it with { proxied: true } to have a proxy');
    return this.node.proxy;
  }

  kill = (): Promise<void> => this.node.kill();
  pause = (): void => this.node.pause();
  resume = (): void => this.node.resume();
  restart = (): Promise<void> => this.node.restart();
  word = (word: string): Promise<string> => this.node.word(word);
}

export class TestEnsemble extends Servers {
  readonly #ports: readonly NodePorts[];
  readonly #links: PeerLinks | undefined;
  /** Those that `replaceUnnoticed` sends, by the server that gets them. */
  readonly #heartbeats = new Map<number, NodeJS.Timeout>();

  constructor(dataDir: string, ports: readonly NodePorts[], options: EnsembleOptions) {
    const links = options.proxiedPeers ? new PeerLinks(ports) : undefined;
    const nodes = ports.map(
      (own, index) =>
        new ZooKeeperNode(index + 1, own.client, options.tls && own.secure, () =>
          launch(
            join(dataDir, `server-${index + 1}`),
            own,
            {
              ...options,
              config: { ...options.config, ...options.configOf?.(index + 1) },
              jvmFlags: [...QUICK_ELECTIONS, ...(options.jvmFlags ?? [])],
            },
            {
              myid: index + 1,
              servers: serverLines(index + 1, ports, links),
            },
          ),
        ),
    );
    super(dataDir, nodes, options);
    this.#ports = ports;
    this.#links = links;
  }

  /** Servers are numbered from 1. */
  server(id: number): ZooKeeperNode {
    const node = this.nodes[id - 1];
    if (!node) throw new Error(`no server ${id} among ${this.#ports.length}`);
    return node;
  }

  /** The leader, as soon as there is one. */
  leader(): Promise<ZooKeeperNode> {
    return eventually('the ensemble has a leader', async () => (await this.#withMode('leader'))[0], {
      withinMs: timing.processMs,
    });
  }

  /**
   * Starts a server again with nothing but its number: the others send it all they have. That is how one has to be
   * mended whose disk was full, because its log of transactions may have a hole that nobody notices (ZOOKEEPER-4882).
   * Not before the others have a leader, who is then not chosen by one that knows nothing.
   */
  async renew(id: number): Promise<void> {
    const server = this.server(id);
    if (server.running) await server.kill();
    await this.leader();
    await rm(join(this.dataDir, `server-${id}`, 'version-2'), { recursive: true, force: true });
    await server.restart();
  }

  /** Those that follow now. */
  followers(): Promise<ZooKeeperNode[]> {
    return this.#withMode('follower');
  }

  /**
   * Cuts a server off from the other servers, not from its clients. Open connections fall silent; new ones are refused,
   * so that a voter for the lost leader learns in time that nobody is there. Needs `proxiedPeers`.
   */
  isolate(id: number): void {
    for (const proxy of this.#peerLinks().of(id)) {
      proxy.suspend();
      proxy.refuse();
    }
  }

  /**
   * Has the others elect another leader, and keeps that from the one so far, server `id`: cut off from the others, it
   * goes on getting heartbeats of followers that it has no more. So it stays in office, as one does for a moment that
   * stood still, until `rejoin`. Needs `proxiedPeers`.
   * @returns the new leader
   */
  async replaceUnnoticed(id: number): Promise<ZooKeeperNode> {
    this.isolate(id);
    const heartbeat = (): void => {
      for (const proxy of this.#peerLinks().quorumTo(id)) proxy.inject('toZooKeeper', FOLLOWER_HEARTBEAT);
    };
    this.#heartbeats.set(id, setInterval(heartbeat, timing.tickMs / 2));
    const others = this.nodes.filter((node) => node.id !== id);
    return eventually(
      'the others have another leader',
      async () => {
        const modes = await Promise.all(others.map((node) => node.mode()));
        return others.find((_, index) => modes[index] === 'leader');
      },
      { withinMs: timing.processMs },
    );
  }

  /**
   * Ends `isolate`, `replaceUnnoticed` and `lag`. Connections that stood still are cut, so that the servers find each
   * other anew.
   */
  rejoin(id: number): void {
    this.#endHeartbeats(id);
    for (const proxy of this.#peerLinks().of(id)) {
      const stoodStill = proxy.isPaused('toZooKeeper');
      proxy.heal();
      if (stoodStill) proxy.cut();
    }
  }

  /**
   * A follower that lags: what the leader tells server `id` arrives `ms` later, so its clients read the past. Keep it
   * well under the sync limit (20 ticks), beyond which the leader drops the follower. 0 ends it. Needs `proxiedPeers`.
   */
  lag(id: number, ms: number): void {
    for (const proxy of this.#peerLinks().quorumFrom(id)) proxy.delay('fromZooKeeper', ms);
  }

  override async stop(): Promise<void> {
    for (const id of this.#heartbeats.keys()) this.#endHeartbeats(id);
    await super.stop();
    await this.#links?.stop();
  }

  #endHeartbeats(id: number): void {
    clearInterval(this.#heartbeats.get(id));
    this.#heartbeats.delete(id);
  }

  protected override beforeStart(): Promise<void> {
    return this.#links?.start() ?? Promise.resolve();
  }

  #peerLinks(): PeerLinks {
    if (!this.#links) throw new Error('start it with { proxiedPeers: true } to have proxies between the servers');
    return this.#links;
  }

  async #withMode(mode: Mode): Promise<ZooKeeperNode[]> {
    const modes = await Promise.all(this.nodes.map((node) => node.mode()));
    return this.nodes.filter((_, index) => modes[index] === mode);
  }
}
