/**
 * Gets an Apache ZooKeeper server, version 3.9 or 3.8, to run from the command line of this project.
 *
 * Sources, in turn: the cache of an earlier run, Maven, Apache's archive (checksum verified), an installed Debian
 * package (3.8), `apt-get install` as root on Debian. For the 3.8 line Debian's package comes first, because that is
 * what its users run. The cache is filled in a temporary directory and renamed, so that starts at the same time do not
 * see half of it.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { run } from './run.mjs';

/** What a line stands for. The 3.9 line is what Postern is developed against. */
const NEWEST = { 3.9: '3.9.5', 3.8: '3.8.6' };
const DEFAULT_LINE = '3.9';

const MAVEN_PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
const MAVEN_MS = 5 * 60_000;
const APT_MS = 10 * 60_000;
const DOWNLOAD_MS = 5 * 60_000;
const CONNECT_MS = 20_000;

/** Releases move from the download hosts to the archive, so the archive is asked too. */
const ARCHIVES = [
  { files: 'https://dlcdn.apache.org/zookeeper', checksums: 'https://downloads.apache.org/zookeeper' },
  { files: 'https://archive.apache.org/dist/zookeeper', checksums: 'https://archive.apache.org/dist/zookeeper' },
];

const DEBIAN_JARS = '/usr/share/java';
/**
 * What Debian's zookeeper.jar needs to serve, log and speak TLS; its manifest names only some of them, and netty-all is
 * hollow.
 */
const DEBIAN_COMPANIONS = [
  'zookeeper-jute.jar',
  'slf4j-api.jar',
  'slf4j-log4j12.jar',
  'log4j-1.2.jar',
  'metrics-core.jar',
  'snappy-java.jar',
  ...['buffer', 'codec', 'common', 'handler', 'resolver', 'transport', 'transport-native-unix-common'].map(
    (name) => `netty-${name}.jar`,
  ),
  'commons-cli.jar',
  'commons-io.jar',
];

/**
 * @param {{ version?: string, cacheDir: string, archive?: string, log?: (line: string) => void }} options
 *   `version` is a line (3.9, 3.8) or an exact version; `archive` is a mirror that stands in for Apache's hosts
 * @returns {Promise<{ version: string, classpath: string, origin: string }>}
 */
export async function provideZooKeeper({ version: wanted, cacheDir, archive, log = () => {} }) {
  const asked = wanted || DEFAULT_LINE;
  const version = NEWEST[asked] ?? asked;
  if (!/^3\.\d+\.\d+$/.test(version)) {
    throw new Error(
      `ZooKeeper version "${asked}" is not known: give a line (${Object.keys(NEWEST).join(', ')}) or an exact version such as ${NEWEST[DEFAULT_LINE]}.`,
    );
  }
  const home = join(cacheDir, 'zookeeper', version);
  const cached = { name: 'cache', provide: () => fromCache(home, version) };
  const maven = { name: 'Maven', provide: () => fromMaven(home, version, log) };
  const apache = { name: 'Apache archive', provide: () => fromArchive(home, version, archive, log) };
  const debian = { name: 'Debian package', provide: () => fromDebian() };
  const apt = { name: 'apt-get', provide: () => fromApt(log) };
  const exact = asked === version;
  const sources = asked === '3.8' ? [debian, apt, cached, maven, apache] : [cached, maven, apache, debian, apt];

  const failures = [];
  for (const source of sources) {
    try {
      const found = await source.provide();
      if (exact && found.version !== version) throw new Error(`has ${found.version}`);
      log(`ZooKeeper ${found.version} from ${found.origin} (wanted: ${asked})`);
      return found;
    } catch (error) {
      if (source !== cached) failures.push(`  ${source.name}: ${/** @type {Error} */ (error).message}`);
    }
  }
  throw new Error(
    [
      `No ZooKeeper ${asked} could be had. Tried:`,
      ...failures,
      'Install Maven or the package `zookeeper`, or set POSTERN_ZOOKEEPER to an ensemble that runs already.',
    ].join('\n'),
  );
}

const classpathOf = (home) => join(home, 'lib', '*');

async function fromCache(home, version) {
  const { origin } = JSON.parse(await readFile(join(home, 'provided.json'), 'utf8'));
  return { version, classpath: classpathOf(home), origin };
}

/** @param {string} home @param {string} version @param {(line: string) => void} log */
async function fromMaven(home, version, log) {
  const probe = await run('mvn', ['--version'], { timeoutMs: 60_000 });
  if (probe.problem) throw new Error(probe.problem);
  log(`Getting ZooKeeper ${version} through Maven (once)`);
  return fillCache(home, version, 'Maven', async (dir) => {
    await writeFile(join(dir, 'pom.xml'), pomFor(version));
    const { problem } = await run(
      'mvn',
      [
        '-q',
        '-B',
        '-f',
        join(dir, 'pom.xml'),
        MAVEN_PLUGIN,
        '-DincludeScope=runtime',
        `-DoutputDirectory=${join(dir, 'lib')}`,
      ],
      { timeoutMs: MAVEN_MS },
    );
    if (problem) throw new Error(problem);
  });
}

/**
 * The server's own pom marks three things `provided` or `optional` without which it does not start (metrics-core: a
 * NoClassDefFoundError in ServerMetrics), cannot snapshot with snappy, or does not log. Their versions come from its
 * parent.
 */
function pomFor(version) {
  const needed = [
    ['io.dropwizard.metrics', 'metrics-core'],
    ['org.xerial.snappy', 'snappy-java'],
    ['ch.qos.logback', 'logback-classic'],
  ];
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>postern</groupId><artifactId>zookeeper-runtime</artifactId><version>1</version><packaging>pom</packaging>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.zookeeper</groupId><artifactId>parent</artifactId><version>${version}</version><type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies>
    <dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>${version}</version></dependency>
${needed.map(([group, artifact]) => `    <dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId></dependency>`).join('\n')}
  </dependencies>
</project>
`;
}

async function fromArchive(home, version, mirror, log) {
  const hosts = mirror ? [{ files: mirror, checksums: mirror }] : ARCHIVES;
  const name = `apache-zookeeper-${version}-bin.tar.gz`;
  const failures = [];
  for (const { files, checksums } of hosts) {
    const release = `zookeeper-${version}/${name}`;
    try {
      const expected = parseSha512(await fetchText(`${checksums}/${release}.sha512`));
      log(`Getting ZooKeeper ${version} from ${new URL(files).host} (once)`);
      return await fillCache(home, version, `Apache archive (${new URL(files).host})`, async (dir) => {
        const tarball = join(dir, name);
        const actual = await download(`${files}/${release}`, tarball);
        if (actual !== expected)
          throw new Error(
            `checksum of ${name} is wrong: sha512 ${actual.slice(0, 16)}…, published ${expected.slice(0, 16)}…`,
          );
        const { problem } = await run('tar', ['-xzf', tarball, '-C', dir, '--strip-components=1'], {
          timeoutMs: DOWNLOAD_MS,
        });
        if (problem) throw new Error(problem);
        await rm(tarball);
      });
    } catch (error) {
      failures.push(`${new URL(files).host}: ${causeOf(error)}`);
    }
  }
  throw new Error(failures.join('; '));
}

/** The published file is `<hex>  <name>`; older ones are split over lines or start with the name. */
function parseSha512(text) {
  const hex = text
    .replace(/apache-zookeeper\S*/g, '')
    .replace(/[^0-9a-fA-F]/g, '')
    .toLowerCase();
  if (hex.length !== 128) throw new Error('the published checksum is not a sha512');
  return hex;
}

async function fetchText(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(CONNECT_MS) });
  if (!response.ok) throw new Error(`${response.status} for ${url}`);
  return response.text();
}

/** @returns {Promise<string>} the sha512 of what was written */
async function download(url, target) {
  const slow = AbortSignal.timeout(DOWNLOAD_MS);
  const connect = new AbortController();
  const connectTimer = setTimeout(
    () => connect.abort(new Error(`no answer within ${CONNECT_MS / 1000} s`)),
    CONNECT_MS,
  );
  const response = await fetch(url, { signal: AbortSignal.any([slow, connect.signal]) }).finally(() =>
    clearTimeout(connectTimer),
  );
  if (!response.ok || !response.body) throw new Error(`${response.status} for ${url}`);
  const hash = createHash('sha512');
  await pipeline(
    Readable.fromWeb(/** @type {import('node:stream/web').ReadableStream} */ (response.body)),
    async function* (chunks) {
      for await (const chunk of chunks) {
        hash.update(chunk);
        yield chunk;
      }
    },
    createWriteStream(target),
    { signal: slow },
  );
  return hash.digest('hex');
}

/** fetch hides why it failed in `cause`. */
function causeOf(error) {
  const cause = error?.cause;
  return cause instanceof Error
    ? `${error.message} (${cause.message || /** @type {any} */ (cause).code})`
    : String(error?.message ?? error);
}

async function fromDebian() {
  const main = join(DEBIAN_JARS, 'zookeeper.jar');
  if (!existsSync(main)) throw new Error(`${main} is not installed`);
  const versioned = (await readdir(DEBIAN_JARS))
    .map((name) => /^zookeeper-(\d+\.\d+\.\d+)\.jar$/.exec(name)?.[1])
    .find(Boolean);
  const jars = [main, ...DEBIAN_COMPANIONS.map((name) => join(DEBIAN_JARS, name)).filter((path) => existsSync(path))];
  return {
    version: versioned ?? (await realpath(main)),
    classpath: jars.join(delimiter),
    origin: 'the Debian package',
  };
}

async function fromApt(log) {
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version'))
    throw new Error('only as root on Debian or Ubuntu');
  log('Installing the package zookeeper with apt-get (once)');
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const install = () =>
    run('apt-get', ['install', '-y', '--no-install-recommends', 'zookeeper'], { timeoutMs: APT_MS, env });
  let { problem } = await install();
  if (problem) {
    await run('apt-get', ['update'], { timeoutMs: APT_MS, env });
    ({ problem } = await install());
  }
  if (problem) throw new Error(problem);
  return { ...(await fromDebian()), origin: 'the Debian package (just installed)' };
}

/**
 * @param {string} home
 * @param {string} version
 * @param {string} origin
 * @param {(dir: string) => Promise<void>} fill puts the jars into `<dir>/lib`
 */
async function fillCache(home, version, origin, fill) {
  const parent = join(home, '..');
  await mkdir(parent, { recursive: true });
  const dir = await mkdtemp(join(parent, `.${version}-`));
  try {
    await fill(dir);
    const jars = await readdir(join(dir, 'lib')).catch(() => []);
    if (!jars.some((name) => name === `zookeeper-${version}.jar`))
      throw new Error(`no zookeeper-${version}.jar among what was fetched`);
    await writeFile(
      join(dir, 'provided.json'),
      JSON.stringify({ version, origin, at: new Date().toISOString() }) + '\n',
    );
    // A directory without its marker is the rest of something broken: out of the way first. One with it was filled by
    // another start meanwhile and is as good as ours.
    if (existsSync(home) && !existsSync(join(home, 'provided.json')))
      await rename(home, join(parent, `.broken-${randomUUID()}`));
    await rename(dir, home).catch((error) => {
      if (!existsSync(join(home, 'provided.json'))) throw error;
    });
    return { version, classpath: classpathOf(home), origin };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
