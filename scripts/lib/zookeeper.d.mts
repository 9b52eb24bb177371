import type { ChildProcess } from 'node:child_process';

/** The child ends with this process, however that ends; `signal` is sent first, KILL after `graceSeconds`. */
export function endWithParent(
  child: ChildProcess,
  options?: { watchParent?: boolean; signal?: 'TERM' | 'KILL'; graceSeconds?: number },
): void;

export interface Provided {
  /** Exact version, for instance 3.9.5. */
  version: string;
  classpath: string;
  /** Where it came from, for people. */
  origin: string;
}

export function provideZooKeeper(options: {
  /** A line (`3.9`, the default, or `3.8`) or an exact version. */
  version?: string | undefined;
  cacheDir: string;
  /** A mirror in place of Apache's hosts. */
  archive?: string | undefined;
  log?: (line: string) => void;
}): Promise<Provided>;

/** Makes `dist/` when it is missing or older than a source. */
export function build(log: (line: string) => void): Promise<void>;

/** The command that starts Java; throws one sentence when there is none. */
export function checkJava(): Promise<string>;

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Why the process could not be started at all. */
  error?: Error;
}

export interface ServerOptions {
  java: string;
  classpath: string;
  dataDir: string;
  clientPort: number;
  /** ms */
  tickTime: number;
  /** Further lines of zoo.cfg; they win over the defaults. */
  config?: Record<string, string>;
  jvmFlags?: readonly string[];
  /** Ensembles: this server's number. */
  myid?: number;
  /** Ensembles: the `server.N` lines as this server is to see them. */
  servers?: Record<string, string>;
  logLevel?: 'ERROR' | 'WARN' | 'INFO' | 'DEBUG';
  /** Kill the server even when this process dies without a chance to clean up; default true. */
  watchParent?: boolean;
  /** Out of reach of the terminal's Ctrl-C; default false. */
  ownProcessGroup?: boolean;
  /** Default true. In an ensemble no server is ready before most of them have started. */
  waitUntilReady?: boolean;
  readyWithinMs?: number;
}

export interface ZooKeeperServer {
  readonly port: number;
  readonly host: string;
  readonly pid: number;
  readonly dataDir: string;
  readonly logFile: string;
  readonly exited: Promise<Exit>;
  kill(signal?: NodeJS.Signals): boolean;
  /** SIGTERM, and SIGKILL after `graceMs`. */
  stop(options?: { graceMs?: number }): Promise<Exit>;
  /** Resolves when it serves clients; rejects with the end of its log when it died. */
  ready(withinMs?: number): Promise<void>;
  word(word: string): Promise<string>;
}

/** A flag of the JVM, for servers with one or two cores. */
export const WITHOUT_WORKERS: string;
export function startZooKeeperServer(options: ServerOptions): Promise<ZooKeeperServer>;
export function fourLetterWord(port: number, word: string): Promise<string>;
/** Rejects with {@link PortTakenError} when something listens there. */
export function assertPortFree(port: number, host?: string): Promise<void>;
export class PortTakenError extends Error {
  readonly port: number;
}
