/**
 * `npm run torture:mutations`: whether the torture finds what it is there to find. Each mutation takes one rule out of
 * a copy of the gateway's code, which is built and tortured with the faults and the recipes that the rule is about,
 * until something is found or five minutes have passed.
 *
 *   npm run torture:mutations -- [--only release-without-owner,...] [--seed 7] [--minutes 5]
 *                                [--report docs/torture/mutations]
 *
 * The exit code is 1 when one was not found. A mutation whose text is not in the code any more is an error: move it
 * with the code.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { mutated, MUTATIONS, type Mutation } from './list.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const RUN = fileURLToPath(new URL('../run.ts', import.meta.url));

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

async function buildMutated(directory: string, mutation: Mutation): Promise<void> {
  const source = join(directory, 'src');
  await cp(join(ROOT, 'src'), source, { recursive: true });
  for (const [file, text] of await mutated(source, mutation)) await writeFile(join(source, file), text);
  for (const one of ['package.json', 'openapi.yaml', 'tsconfig.json', 'tsconfig.build.json'])
    await cp(join(ROOT, one), join(directory, one));
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const child = spawn(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: directory, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${mutation.name} does not compile`);
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
