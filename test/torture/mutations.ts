/**
 * `npm run torture:mutations`: whether the torture finds what it is there to find. Each mutation takes one rule out of a copy of the gateway's code, which
 * is built and tortured with the faults and the recipes that the rule is about, until something is found or five minutes have passed.
 *
 *   npm run torture:mutations -- [--only release-without-owner,...] [--seed 7] [--minutes 5] [--report docs/torture/mutations]
 *
 * The exit code is 1 when one was not found. A mutation whose text is not in the code any more is an error: move it with the code.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RUN = fileURLToPath(new URL('run.ts', import.meta.url));

interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

interface Mutation {
  readonly name: string;
  /** What the gateway does now. */
  readonly sentence: string;
  readonly edits: readonly Edit[];
  /** For run.ts. */
  readonly faults: string;
  readonly kinds: string;
  /**
   * With few clients who do little. ZooKeeper answers the requests of a session in order, so a read behind a write shows at least that write, also from a
   * server that lags: a replica that writes all the time reads nothing that is out of date.
   */
  readonly calm?: boolean;
}

const MUTATIONS: readonly Mutation[] = [
  {
    name: 'grant-without-checked-write',
    sentence: 'Whoever is first in line is granted without the version-checked write (C3).',
    edits: [
      {
        file: 'recipes/line-waiter.ts',
        find: `const written = await grant(this.#context, this.#line, this.place, bounds.hardDeadline);
    return written === 'written' ? 'granted' : written;`,
        replace: `return 'granted';`,
      },
    ],
    faults: 'kill-replica,stop-clients',
    kinds: 'lock',
  },
  {
    name: 'no-node-believed',
    sentence: 'NO_NODE from a server that lags is believed (C2).',
    edits: [
      {
        file: 'recipes/line-waiter.ts',
        find: `if (zxid >= this.place.czxid) return results;`,
        replace: `return results;`,
      },
      {
        file: 'recipes/line-waiter.ts',
        find: `if (watched.value !== undefined || watched.zxid >= this.place.czxid) {`,
        replace: `if (watched.zxid >= 0) {`,
      },
    ],
    faults: 'lag',
    kinds: 'lock',
    calm: true,
  },
  {
    name: 'release-without-owner',
    sentence: 'A release with a holdId, which is public, does not ask whose hold it is (C8).',
    edits: [
      {
        file: 'recipes/release.ts',
        find: `if (node?.stat.czxid !== hold.czxid || node.stat.ephemeralOwner !== lease.sessionId) return false;`,
        replace: `if (node?.stat.czxid !== hold.czxid) return false;`,
      },
    ],
    faults: 'takeover',
    kinds: 'lock',
  },
  {
    name: 'token-from-sequence',
    sentence: 'The fencing token is the sequence of the node, in every answer (C10).',
    edits: [
      { file: 'recipes/acquire.ts', find: `fencingToken: place.czxid,`, replace: `fencingToken: place.sequence,` },
      {
        file: 'recipes/describe.ts',
        find: `      fencingToken: stat.czxid,
      since: stat.ctime,`,
        replace: `      fencingToken: contender.sequence,
      since: stat.ctime,`,
      },
      {
        file: 'recipes/describe.ts',
        find: `    fencingToken: stat.czxid,
    since: record.state`,
        replace: `    fencingToken: contender.sequence,
    since: record.state`,
      },
    ],
    faults: 'containers',
    kinds: 'lock',
  },
  {
    name: 'watch-lost-on-reconnect',
    sentence: 'Watches are not set again after a reconnect (T3, T4).',
    edits: [
      {
        file: 'zookeeper/watch.ts',
        find: `return batches.map(({ lists }) => setWatches(lists, lastZxid));`,
        replace: `return batches.slice(batches.length).map(({ lists }) => setWatches(lists, lastZxid));`,
      },
    ],
    faults: 'reconnect-storm,cut-frame',
    kinds: 'lock',
  },
  {
    name: 'second-create',
    sentence: 'After a lost connection a place is created again, and nobody looks for the guid (C6).',
    edits: [
      {
        file: 'recipes/join.ts',
        find: `for (let look = attempt > 0 || (request.onlyIfFree && !free); ; look = true) {`,
        replace: `for (let look = attempt < 0 || (request.onlyIfFree && !free && attempt === 0); ; look = true) {`,
      },
      {
        file: 'recipes/join.ts',
        find: `const own = await this.#own(listed, mine.name);`,
        replace: `const own = listed.filter(({ name }) => name === mine.name);`,
      },
    ],
    faults: 'reconnect-storm,cut-frame',
    kinds: 'lock',
  },
  {
    name: 'ack-without-claim',
    sentence: 'An acknowledgement does not check that the claim is still that of its lease (C20).',
    edits: [
      {
        file: 'recipes/queue/settle.ts',
        find: `{ type: 'delete', path: recordPath(path), version: claim.version },
          { type: 'delete', path },`,
        replace: `{ type: 'delete', path: recordPath(path), version: Math.min(-1, claim.version) },
          { type: 'delete', path },`,
      },
    ],
    faults: 'takeover',
    kinds: 'claims',
  },
  {
    name: 'replica-pings-leases',
    sentence: 'A replica keeps the leases alive that it has connections for (C5).',
    edits: [
      {
        file: 'zookeeper/lease-session.ts',
        find: `lease = new LeaseSession(ensemble, connection);`,
        replace: `const pinged = (lease = new LeaseSession(ensemble, connection));
            setInterval(() => void pinged.sync('/').catch(() => undefined), options.timeoutMs / 3).unref();`,
      },
    ],
    faults: 'stop-clients',
    kinds: 'lock',
  },
];

interface Found {
  readonly mutation: Mutation;
  /** Undefined: nothing was found. */
  readonly seconds: number | undefined;
  readonly what: string;
}

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '5' },
    report: { type: 'string', default: join('.cache', 'torture', 'mutations') },
  },
});

const only = values.only?.split(',');
const wanted = MUTATIONS.filter(({ name }) => only?.includes(name) ?? true);
if (only !== undefined && wanted.length < only.length)
  throw new Error(`there are ${MUTATIONS.map(({ name }) => name).join(', ')}`);

const found: Found[] = [];
for (const mutation of wanted) {
  const directory = await mkdtemp(join(tmpdir(), 'postern-mutation-'));
  try {
    await buildMutated(directory, mutation);
    const one = await torture(directory, mutation);
    found.push(one);
    console.log(`${mutation.name}: ${one.seconds === undefined ? 'NOT FOUND' : `after ${one.seconds} s`} ${one.what}`);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
const file = resolve(`${values.report}.md`);
await mkdir(dirname(file), { recursive: true });
await writeFile(file, markdown(found));
console.log(file);
process.exit(found.every(({ seconds }) => seconds !== undefined) ? 0 : 1);

/** @throws Error when a text that is to be replaced is not there exactly once */
async function buildMutated(directory: string, { name, edits }: Mutation): Promise<void> {
  const source = join(directory, 'src');
  await cp(join(ROOT, 'src'), source, { recursive: true });
  for (const { file, find, replace } of edits) {
    const path = join(source, file);
    const text = await readFile(path, 'utf8');
    const times = text.split(find).length - 1;
    if (times !== 1) throw new Error(`${name}: in ${file} there is ${times} times, not once: ${find}`);
    await writeFile(
      path,
      text.replace(find, () => replace),
    );
  }
  for (const one of ['package.json', 'openapi.yaml', 'tsconfig.json', 'tsconfig.build.json'])
    await cp(join(ROOT, one), join(directory, one));
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const child = spawn(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: directory, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${name} does not compile`);
}

async function torture(directory: string, mutation: Mutation): Promise<Found> {
  const effort = mutation.calm === true ? ['--clients', '1', '--pause', '4000'] : ['--pause', '200'];
  const args = ['--minutes', values.minutes, '--seed', values.seed, '--round', '10', ...effort];
  const choice = ['--faults', mutation.faults, '--kinds', mutation.kinds];
  const out = ['--main', join(directory, 'dist', 'main.js'), '--report', join(directory, 'report')];
  const child = spawn(process.execPath, ['--import', 'tsx', RUN, ...args, ...choice, ...out], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  process.once('exit', () => child.kill());
  let first: Found | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    const [, seconds, what] = /^([\d.]+) s VIOLATION (.*)/.exec(line) ?? [];
    if (seconds !== undefined) first ??= { mutation, seconds: Number(seconds), what: what as string };
    if (first !== undefined) child.kill(); // it has shown what was wanted
  }
  return first ?? { mutation, seconds: undefined, what: '' };
}

function markdown(all: readonly Found[]): string {
  return [
    '# What the torture finds',
    '',
    `Each line is a build of the gateway without one rule, tortured with \`npm run torture:mutations -- --seed ${values.seed}\` until something was found, for ${values.minutes} minutes at most.`,
    '',
    '| mutation | what the gateway does | faults | found after, s | what was found |',
    '| --- | --- | --- | ---: | --- |',
    ...all.map(
      ({ mutation: { name, sentence, faults }, seconds, what }) =>
        `| ${name} | ${sentence} | ${faults} | ${seconds ?? 'not found'} | ${what.replaceAll('|', '\\|').slice(0, 160)} |`,
    ),
    '',
  ].join('\n');
}
