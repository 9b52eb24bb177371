/**
 * The systems that Postern is compared with, each got once through the client of the place where it is published, into
 * `.cache/bench`. Nothing is installed on the machine. What cannot be had is told by its error, which the report shows.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ETCD = 'v3.7.3';
/** Of the line whose licence is still an open one. */
const CONSUL = 'v1.14.11';
const CURATOR = '5.9.0';
const KAZOO = '2.11.0';
const TERRAFORM = 'v1.5.7';
/** With the libraries that a bare system lacks. */
const DEBIAN_PACKAGES = [
  'redis-server',
  'redis-tools',
  'beanstalkd',
  'webdis',
  'libjemalloc2',
  'liblzf1',
  'libhiredis0.14',
  'libb64-0d',
  'libevent-2.1-7',
  'libmsgpackc2',
];
const MAVEN_PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
const WITHIN_MS = 10 * 60_000;

const HERE = fileURLToPath(new URL('.', import.meta.url));
const HOME = fileURLToPath(new URL('../.cache/bench', import.meta.url));

export interface Program {
  readonly version: string;
  readonly command: string;
  /** Before those of a run. */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

export type PeerName = 'etcd' | 'consul' | 'curator' | 'kazoo' | 'redis' | 'webdis' | 'beanstalkd';

export const PEERS: Record<PeerName, () => Promise<Program>> = {
  etcd: once(etcd),
  consul: once(consul),
  curator: once(curator),
  kazoo: once(kazoo),
  redis: once(() => debianProgram('redis-server')),
  webdis: once(() => debianProgram('webdis')),
  beanstalkd: once(() => debianProgram('beanstalkd')),
};

/** The released module with its own main function, since `go install` refuses modules that replace others. */
async function etcd(): Promise<Program> {
  const dir = await provide(`etcd-${ETCD}`, async (made) => {
    await writeFile(
      join(made, 'main.go'),
      'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n',
    );
    await writeFile(
      join(made, 'go.mod'),
      `module bench/etcd\n\ngo 1.25\n\nrequire go.etcd.io/etcd/server/v3 ${ETCD}\n`,
    );
    await must('go', ['mod', 'tidy'], inGo(made));
    await must('go', ['build', '-ldflags=-s -w', '-o', 'etcd', '.'], inGo(made));
  });
  return { version: ETCD, command: join(dir, 'etcd'), args: [], env: process.env };
}

async function consul(): Promise<Program> {
  const module = 'github.com/hashicorp/consul';
  const dir = await provide(`consul-${CONSUL}`, async (made) => {
    await writeFile(join(made, 'go.mod'), 'module bench/consul\n\ngo 1.25\n');
    await must('go', ['get', `${module}@${CONSUL}`], inGo(made));
    await must('go', ['build', '-ldflags=-s -w', '-o', 'consul', module], inGo(made));
  });
  return { version: CONSUL, command: join(dir, 'consul'), args: [], env: process.env };
}

function inGo(cwd: string) {
  return { cwd, env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false' } };
}

async function curator(): Promise<Program> {
  const jars = join(await curatorJars(), '*');
  // Compiled each time: it takes a second, and the source is ours.
  const classes = join(HOME, 'curator-classes');
  await must('javac', ['-cp', jars, '-d', classes, join(HERE, 'peers', 'CuratorBench.java')]);
  return {
    version: CURATOR,
    command: 'java',
    args: [
      ...['-XX:+UseSerialGC', '-Xmx512m', '-XX:-UsePerfData'],
      ...['-cp', [classes, jars].join(delimiter), 'CuratorBench'],
    ],
    env: process.env,
  };
}

/** @returns the directory of Curator's recipes and all that they need */
export async function curatorJars(): Promise<string> {
  const dir = await provide(`curator-${CURATOR}`, async (made) => {
    await writeFile(join(made, 'pom.xml'), pomOfCurator());
    await must('mvn', [
      ...['-q', '-B', '-f', join(made, 'pom.xml'), MAVEN_PLUGIN],
      ...['-DincludeScope=runtime', `-DoutputDirectory=${join(made, 'lib')}`],
    ]);
  });
  return join(dir, 'lib');
}

function pomOfCurator(): string {
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>postern</groupId><artifactId>curator-runtime</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.curator</groupId><artifactId>curator-recipes</artifactId><version>${CURATOR}</version>
  </dependency></dependencies>
</project>
`;
}

async function kazoo(): Promise<Program> {
  const env = { ...process.env, PYTHONPATH: await kazooPackages() };
  return { version: KAZOO, command: 'python3', args: [join(HERE, 'peers', 'kazoo_bench.py')], env };
}

/** @returns the directory in which Python finds kazoo */
export async function kazooPackages(): Promise<string> {
  const dir = await provide(`kazoo-${KAZOO}`, async (made) => {
    await must('python3', ['-m', 'pip', 'install', '-q', '--target', join(made, 'lib'), `kazoo==${KAZOO}`]);
  });
  return join(dir, 'lib');
}

const debian = once(() =>
  provide('debian', async (made) => {
    const download = () => must('apt-get', ['download', '-q', ...DEBIAN_PACKAGES], { cwd: made });
    await download().catch(async () => {
      await must('apt-get', ['update', '-qq']);
      await download();
    });
    for (const name of await readdir(made))
      if (name.endsWith('.deb')) await must('dpkg', ['-x', join(made, name), made]);
  }),
);

/** Of an unpacked package, so that no service starts. */
async function debianProgram(name: string): Promise<Program> {
  const dir = await debian();
  const packages = (await readdir(dir)).find((file) => file.startsWith(`${name}_`));
  const libraries = ['x86_64-linux-gnu', 'aarch64-linux-gnu'].map((triplet) => join(dir, 'usr', 'lib', triplet));
  return {
    version: packages?.split('_')[1]?.replace('%3a', ':') ?? 'of Debian',
    command: join(dir, 'usr', 'bin', name),
    args: [],
    env: { ...process.env, LD_LIBRARY_PATH: libraries.filter((path) => existsSync(path)).join(delimiter) },
  };
}

/**
 * Fills a directory under a name of its own and renames it: a run that was cut off leaves no half of a tool.
 * @returns the directory
 */
export async function provide(name: string, fill: (dir: string) => Promise<unknown>): Promise<string> {
  const dir = join(HOME, name);
  if (existsSync(dir)) return dir;
  console.error(`getting ${name} (once)`);
  await mkdir(HOME, { recursive: true });
  const made = await mkdtemp(join(HOME, `.${name}-`));
  try {
    await fill(made);
    await rename(made, dir).catch((error: unknown) => {
      if (!existsSync(dir)) throw error; // another run was faster
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  return dir;
}

/** The last version with an open licence. @returns the program */
export async function terraform(): Promise<string> {
  const dir = await provide(`terraform-${TERRAFORM}`, async (made) => {
    const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false', GOBIN: made };
    // Without debuggers' tables and inlining: two thirds of the CPU, and nothing measures it.
    const quickly = ['-ldflags=-s -w', '-gcflags=all=-dwarf=false -l'];
    await must('go', ['install', ...quickly, `github.com/hashicorp/terraform@${TERRAFORM}`], { env });
  });
  return join(dir, 'terraform');
}

/** @throws with the end of what it said */
export function must(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
) {
  return new Promise<string>((resolve, reject) => {
    execFile(command, args, { timeout: WITHIN_MS, maxBuffer: 2 ** 26, ...options }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else
        reject(
          new Error(
            `\`${command}\`: ${(stderr.trim() || stdout.trim() || error.message).split('\n').slice(-3).join(' ')}`,
          ),
        );
    });
  });
}

function once<T>(get: () => Promise<T>): () => Promise<T> {
  let got: Promise<T> | undefined;
  return () => (got ??= get());
}
