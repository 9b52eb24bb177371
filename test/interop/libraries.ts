/**
 * The libraries that are tried, each got once through the client of the place where it is published
 * (`bench/provide.ts`), and the programs in `drivers` that use them. What cannot be had is told by its error, and its
 * tests fail with it. Terraform is a program of its own.
 */
import { mkdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { curatorJars, kazooPackages, must, terraform } from '../../bench/provide.js';

export const LIBRARIES = ['curator', 'kazoo', 'go-zookeeper', 'terraform'] as const;
export type LibraryName = (typeof LIBRARIES)[number];

export interface LibraryProgram {
  command: string;
  args: string[];
  env: Record<string, string>;
}

export type Provided = LibraryProgram | { error: string };

const DRIVERS = fileURLToPath(new URL('drivers', import.meta.url));
const HOME = fileURLToPath(new URL('../../.cache/interop', import.meta.url));

/** All at once; compiled each time, since the sources are ours and it takes a second. */
export async function provideLibraries(): Promise<Record<LibraryName, Provided>> {
  await mkdir(HOME, { recursive: true });
  const get = (provide: () => Promise<LibraryProgram>): Promise<Provided> =>
    provide().catch((error: unknown) => ({ error: (error as Error).message }));
  const [curator, kazoo, goZookeeper, ofTerraform] = await Promise.all([
    get(provideCurator),
    get(provideKazoo),
    get(provideGo),
    get(async () => ({ command: await terraform(), args: [], env: {} })),
  ]);
  return { curator, kazoo, 'go-zookeeper': goZookeeper, terraform: ofTerraform };
}

async function provideCurator(): Promise<LibraryProgram> {
  const jars = join(await curatorJars(), '*');
  const classes = join(HOME, 'classes');
  await must('javac', ['-cp', jars, '-d', classes, join(DRIVERS, 'Curator.java')]);
  const flags = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData', '-Xmx128m'];
  return { command: 'java', args: [...flags, '-cp', [classes, jars].join(delimiter), 'Curator'], env: {} };
}

async function provideKazoo(): Promise<LibraryProgram> {
  return {
    command: 'python3',
    args: [join(DRIVERS, 'kazoo_driver.py')],
    env: { PYTHONPATH: await kazooPackages(), PYTHONDONTWRITEBYTECODE: '1' },
  };
}

/** Go has a cache of its own for modules; go.sum says what they must be. */
async function provideGo(): Promise<LibraryProgram> {
  const command = join(HOME, 'go-zookeeper');
  await must('go', ['build', '-o', command, '.'], {
    cwd: join(DRIVERS, 'go'),
    env: { ...env, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false' },
  });
  return { command, args: [], env: {} };
}
