/**
 * One ZooKeeper server process of the tests: its ports, its settings, its lives.
 */
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync } from 'node:fs';
import { mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, kill, pid } from 'node:process';
import { fileURLToPath } from 'node:url';
import {
  checkJava,
  provideZooKeeper,
  startZooKeeperServer,
  type Provided,
  type ZooKeeperServer,
} from '../../../scripts/lib/zookeeper.mjs';
import { certificateSettings, type Certificates } from '../http/certificates.js';
import { freePort } from '../free-port.js';
import { standStill } from '../stand-still.js';
import type { TcpProxy } from './tcp-proxy.js';
import { timing } from '../timing.js';

export const HOST = '127.0.0.1';
const CACHE_DIR = fileURLToPath(new URL('../../../.cache', import.meta.url));
const DATA_PREFIX = 'postern-zookeeper-';

/** C1 only: a test server lives too briefly to repay the second compiler, and the machine's cores are few. */
const JVM_FLAGS = ['-XX:TieredStopAtLevel=1', '-Dzookeeper.extendedTypesEnabled=true', '-Dzookeeper.forceSync=no'];

export type Mode = 'standalone' | 'leader' | 'follower';

export interface StartOptions {
  /** ms; the shortest session is two ticks. Default {@link timing.tickMs}. */
  tickTime?: number;
  /** Lines of zoo.cfg that win over the defaults, for instance `{ maxClientCnxns: '60' }`. */
  config?: Record<string, string>;
  /** System properties and the like, for instance `-Dznode.container.checkIntervalMs=200`. */
  jvmFlags?: readonly string[];
  /** Clients go through a {@link TcpProxy}: `node.proxy`, and the connect string names it. */
  proxied?: boolean;
  /** Opens a TLS port too: `node.securePort`. */
  tls?: Certificates;
}

export interface NodePorts {
  client: number;
  secure: number;
  quorum: number;
  election: number;
}

/** One server process, through all its lives. */
export class ZooKeeperNode {
  proxy: TcpProxy | undefined;
  #server: ZooKeeperServer | undefined;

  constructor(
    readonly id: number,
    readonly port: number,
    readonly securePort: number | undefined,
    private readonly launch: () => Promise<ZooKeeperServer>,
  ) {}

  /** Where clients are to connect: the proxy if there is one. */
  get connectString(): string {
    return this.proxy?.connectString ?? `${HOST}:${this.port}`;
  }

  get pid(): number {
    return this.#live().pid;
  }

  get running(): boolean {
    return this.#server !== undefined;
  }

  get logFile(): string {
    return this.#live().logFile;
  }

  async start(): Promise<void> {
    this.#server = await this.launch();
  }

  /** Resolves when it serves clients. */
  async ready(): Promise<void> {
    await this.#live().ready(timing.startMs);
  }

  /** A crash: SIGKILL, and the data stays. */
  async kill(): Promise<void> {
    const server = this.#live();
    this.#server = undefined;
    server.kill('SIGKILL');
    await server.exited;
  }

  /** The process stands still, its connections open: SIGSTOP. */
  pause(): void {
    standStill(this.#live().pid);
  }

  resume(): void {
    this.#live().kill('SIGCONT');
  }

  /** Starts it again on the same port and data, killing it first if it runs. */
  async restart({ ready = true }: { ready?: boolean } = {}): Promise<void> {
    if (this.running) await this.kill();
    await this.start();
    if (ready) await this.ready();
  }

  /** What the server says it is; undefined when it does not serve. */
  async mode(): Promise<Mode | undefined> {
    const answer = await this.#server?.word('srvr').catch(() => '');
    return /^Mode: (\w+)/m.exec(answer ?? '')?.[1] as Mode | undefined;
  }

  /** Of all its data, behind every 128th transaction lately: by zxid, in the order of the transactions. */
  async digests(): Promise<Map<string, string>> {
    const lines = (await this.word('hash')).matchAll(/^([0-9a-f]+): (\d+)$/gm);
    return new Map([...lines].map(([, zxid, digest]) => [zxid as string, digest as string]));
  }

  /** The answer to a four letter word: `cons`, `dump`, `wchs`, `mntr`, … */
  word(word: string): Promise<string> {
    return this.#live().word(word);
  }

  #live(): ZooKeeperServer {
    if (!this.#server) throw new Error(`ZooKeeper server ${this.id} is not running`);
    return this.#server;
  }
}

interface Release extends Provided {
  readonly java: string;
  /** Where the archive of its classes is, if it was made (`archiveClasses`). */
  readonly classArchive: string;
}

let provided: Promise<Release> | undefined;

/** Java and the jars, looked up once per process; `npm test` has fetched them before. */
export function zooKeeperRelease(): Promise<Release> {
  provided ??= Promise.all([
    checkJava(),
    provideZooKeeper({
      version: env['POSTERN_ZOOKEEPER_VERSION'],
      cacheDir: CACHE_DIR,
      archive: env['POSTERN_ZOOKEEPER_ARCHIVE'],
    }),
  ]).then(([java, release]) => ({ java, ...release, classArchive: classArchiveOf(java, release) }));
  return provided;
}

/**
 * Archives the classes that a server loads, unless that was done before: each of the hundreds of servers of a run
 * starts with a third less CPU.
 */
export async function archiveClasses(): Promise<void> {
  const { classArchive } = await zooKeeperRelease();
  if (existsSync(classArchive)) return;
  const unfinished = `${classArchive}.${pid}`;
  const jvmFlags = [`-XX:ArchiveClassesAtExit=${unfinished}`, '-Xlog:disable'];
  await withFreePorts(1, async (dir, [ports]) => {
    const server = await launch(dir, ports as NodePorts, { jvmFlags }, {});
    await server.ready(timing.startMs);
    await server.stop();
    await rm(dir, { recursive: true });
  });
  await rename(unfinished, classArchive);
}

/** It fits this Java and these jars; Java does not take another one. */
function classArchiveOf(java: string, { classpath }: Provided): string {
  const key = createHash('sha256').update(`${java}\n${classpath}`).digest('hex').slice(0, 16);
  return join(CACHE_DIR, 'zookeeper', `classes-${key}.jsa`);
}

export async function launch(
  dataDir: string,
  ports: NodePorts,
  options: StartOptions,
  place: { myid?: number; servers?: Record<string, string> },
): Promise<ZooKeeperServer> {
  const { java, classpath, classArchive } = await zooKeeperRelease();
  const tls = options.tls && certificateSettings(options.tls, ports.secure);
  return startZooKeeperServer({
    java,
    classpath,
    dataDir,
    clientPort: ports.client,
    tickTime: options.tickTime ?? timing.tickMs,
    config: {
      maxClientCnxns: '0',
      maxSessionTimeout: '300000', // as `npm start` has it
      preAllocSize: '1024', // KiB; the default of 64 MiB per server is much in a memory file system
      ...tls?.config,
      ...options.config,
    },
    jvmFlags: [
      ...JVM_FLAGS,
      ...(existsSync(classArchive) ? [`-XX:SharedArchiveFile=${classArchive}`] : []),
      ...(tls?.jvmFlags ?? []),
      ...(options.jvmFlags ?? []),
    ],
    waitUntilReady: false, // no member of an ensemble is ready before most have started
    ...place,
  });
}

export async function withFreePorts<T>(servers: number, make: (dir: string, ports: NodePorts[]) => T): Promise<T> {
  const ports: NodePorts[] = [];
  for (let index = 0; index < servers; index++) {
    const [client, secure, quorum, election] = [await freePort(), await freePort(), await freePort(), await freePort()];
    ports.push({ client, secure, quorum, election });
  }
  return make(await mkdtemp(join(memoryDir(), `${DATA_PREFIX}${pid}-`)), ports);
}

/** A file system in memory when there is one: ZooKeeper syncs its log at every write. */
function memoryDir(): string {
  try {
    accessSync('/dev/shm', constants.W_OK);
    return '/dev/shm';
  } catch {
    return tmpdir();
  }
}

/** Removes what killed test runs have left behind. */
export async function removeAbandonedData(): Promise<void> {
  const dir = memoryDir();
  for (const name of await readdir(dir)) {
    const owner = new RegExp(`^${DATA_PREFIX}(\\d+)-`).exec(name)?.[1];
    if (owner !== undefined && !isAlive(Number(owner))) await rm(join(dir, name), { recursive: true, force: true });
  }
}

function isAlive(processId: number): boolean {
  try {
    kill(processId, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
