/**
 * What the operating system knows of processes, and how they are kept on a core: Linux' /proc and taskset, without
 * which it is not measured.
 */
import { execFileSync, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { createServer } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithParent } from '../scripts/lib/zookeeper.mjs';

/** Of utime and stime in /proc: the kernel's USER_HZ, 100 on every Linux. */
const TICKS_PER_SECOND = 100;
const MEMORY_DIR = '/dev/shm';

export interface Usage {
  readonly rssKiB: number;
  readonly cpuSeconds: number;
}

/** Of a process and all that it has started. */
export function usage(pid: number): Usage {
  let rssKiB = 0;
  let ticks = 0;
  for (const one of [pid, ...descendants(pid)]) {
    const status = read(`/proc/${one}/status`);
    const stat = read(`/proc/${one}/stat`);
    if (stat === '') continue; // ended meanwhile
    rssKiB += Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0);
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return { rssKiB, cpuSeconds: ticks / TICKS_PER_SECOND };
}

function descendants(pid: number): number[] {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
  const children = threads.flatMap((thread) => read(`/proc/${pid}/task/${thread}/children`).split(' ').filter(Boolean));
  return children.map(Number).flatMap((child) => [child, ...descendants(child)]);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Which cores are whose; without two of them or without taskset nothing is pinned, and the report says so. */
export interface Cores {
  readonly generator: number;
  readonly servers: number;
}

export function chooseCores(): Cores | undefined {
  if (availableParallelism() < 2) return undefined;
  try {
    const list = /:\s*(.*)$/m.exec(execFileSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' }));
    const cores = (list?.[1] ?? '').split(',').flatMap((part) => {
      const [from = NaN, to = from] = part.split('-').map(Number);
      return Array.from({ length: to - from + 1 }, (_, i) => from + i);
    });
    const [generator, servers] = cores;
    return generator === undefined || servers === undefined ? undefined : { generator, servers };
  } catch {
    return undefined;
  }
}

/** Starts a process on a core; it ends with this one at the latest. */
export function spawnOn(
  core: number | undefined,
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  const child =
    core === undefined
      ? spawn(command, args, options)
      : spawn('taskset', ['-c', String(core), command, ...args], options);
  child.on('error', () => {}); // told by its exit
  endWithParent(child);
  return child;
}

/** Moves a process that runs already, with all its threads. */
export function pin(pid: number, core: number | undefined): void {
  if (core !== undefined) execFileSync('taskset', ['-a', '-c', '-p', String(core), String(pid)], { stdio: 'ignore' });
}

/** Ends a process that was started here. */
export async function end(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await exited;
}

const directories: string[] = [];
process.on('exit', () => {
  for (const dir of directories) rmSync(dir, { recursive: true, force: true });
});

/** In memory where there is such a file system. Removed at the end of this process at the latest. */
export async function freshDirectory(onDisk = false): Promise<string> {
  const dir = await mkdtemp(join(!onDisk && existsSync(MEMORY_DIR) ? MEMORY_DIR : tmpdir(), 'postern-bench-'));
  directories.push(dir);
  return dir;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        address !== null && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}

/** Until `ready` answers true; @throws when that takes longer than `withinMs` or `child` ends */
export async function untilReady(
  what: string,
  ready: () => Promise<boolean>,
  child?: ChildProcess,
  withinMs = 30_000,
): Promise<void> {
  for (const deadline = performance.now() + withinMs; performance.now() < deadline;) {
    if (child !== undefined && (child.exitCode !== null || child.signalCode !== null)) break;
    if (await ready().catch(() => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${what} did not become ready`);
}
