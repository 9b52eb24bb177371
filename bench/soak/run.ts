/**
 * `npm run soak -- --minutes N`: work that stays the same for so long, with every recipe, and whether anything
 * grows.
 *
 *   npm run soak -- [--minutes 30] [--leases 5000] [--locks 500] [--contenders 3] [--messages 1000] [--out docs/soak]
 *
 * Two replicas as processes, a ZooKeeper with its data in memory, and a process for the load. Writes `<out>/README.md`
 * and its charts, by default into .cache/soak. The exit code is 1 when a level grew, something was left behind, or a
 * promise was broken.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { cpus, loadavg } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build, endWithParent } from '../../scripts/lib/zookeeper.mjs';
import { SCHEDULE_SETTINGS } from '../../test/histories/workloads/schedule.js';
import { sleep } from '../generator/meter.js';
import { ROOT, startPostern, startZooKeeper } from '../servers.js';
import { judge } from './levels.js';
import { failuresOf, writeReport, type Soak } from './report.js';
import { takeSample, type Sample } from './samples.js';
import type { Order, Steady, Told, Work } from './work.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    leases: { type: 'string', default: '5000' },
    locks: { type: 'string', default: '500' },
    contenders: { type: 'string', default: '3' },
    messages: { type: 'string', default: '1000' },
    out: { type: 'string', default: '.cache/soak' },
  },
});

/** What was decided or posted is kept for as long as the rest that nobody uses, see replica.ts. */
const SETTINGS = {
  ...SCHEDULE_SETTINGS,
  POSTERN_TRANSACTION_HISTORY_MS: '300000',
  POSTERN_GROUP_MESSAGE_MS: '300000',
};
/** Of ZooKeeper: leases that are given up end soon. */
const TICK_MS = 1_000;
const SAMPLE_EVERY_MS = 5_000;
/** Compilers and caches have their size by then (`OPENED_KEPT_MS`); of a short run a third. */
const WARM_UP_MS = 600_000;
/** What a replica knows of queues and lines that nobody uses it forgets within this. */
const SETTLE_MS = 60_000;

/** A run that is cut off leaves what it has seen so far. */
const SAVED = join(ROOT, '.cache/soak-samples.json');
const SAVED_EVERY = 12;

const say = (line: string): void => console.error(line);
process.once('SIGINT', () => process.exit(130)); // children and directories go with it
process.once('SIGTERM', () => process.exit(143));

await build(say);
const minutes = Number(values.minutes);
const zookeeper = await startZooKeeper({ heap: '1g', tickTime: TICK_MS, config: { maxSessionTimeout: '300000' } });
const replica = { main: 'bench/soak/replica.ts', nodeOptions: '--expose-gc --import tsx', settings: SETTINGS };
const replicas = [
  await startPostern({ zooKeeperPort: zookeeper.port, ...replica }),
  await startPostern({ zooKeeperPort: zookeeper.port, ...replica }),
];
const work: Work = {
  ports: replicas.map(({ port }) => port),
  leases: Number(values.leases),
  locks: Number(values.locks),
  contenders: Number(values.contenders),
  messages: Number(values.messages),
};
const child = fork(join(ROOT, 'bench/soak/load.ts'), { execArgv: ['--import', 'tsx'], cwd: ROOT });
endWithParent(child);
child.once('exit', (code) => code !== 0 && process.exit(1));

const startedAt = performance.now();
const samples: Sample[] = [];
let told: Told | undefined;

async function ask(order: Order): Promise<Told | Steady> {
  const answered = once(child, 'message');
  child.send(order);
  const [answer] = (await answered) as [Told | Steady];
  return answer;
}

async function sample(): Promise<Sample> {
  const one = await takeSample((performance.now() - startedAt) / 1_000, zookeeper, replicas, told);
  samples.push(one);
  return one;
}

/** As `sample`, once the replicas have collected their garbage: a process that rests lets it lie. */
async function sampleOfHeld(): Promise<Sample> {
  for (const replica of replicas) replica.process.kill('SIGUSR2');
  await sleep(SAMPLE_EVERY_MS);
  return sample();
}

/** Samples at fixed times until `ms` have passed. */
async function sampleFor(ms: number, tell: boolean): Promise<Sample[]> {
  const from = samples.length;
  const begin = performance.now();
  for (let at = begin; at <= begin + ms; at += SAMPLE_EVERY_MS) {
    await sleep(Math.max(0, at - performance.now()));
    try {
      if (tell) told = (await ask('tell')) as Told;
      await sample();
    } catch (error) {
      say(`no sample: ${(error as Error).message}`);
    }
    if (samples.length % SAVED_EVERY === 0) await writeFile(SAVED, JSON.stringify(samples));
  }
  return samples.slice(from);
}

const before = await sampleOfHeld();
say(
  `starting ${work.leases} leases, ${work.locks} locks with ${work.contenders} contenders each, ${work.messages} messages/s`,
);
await ask({ start: work });
say(`steady after ${Math.round((performance.now() - startedAt) / 1_000)} s; ${minutes} minutes from here`);
const load = loadavg()[0] as number;
const steady = await sampleFor(minutes * 60_000, true);
say('giving everything back');
told = (await ask('stop')) as Told;
await sampleFor(SETTLE_MS, false);
const after = await sampleOfHeld();

const warmUp = Math.floor(steady.length * Math.min(1 / 3, WARM_UP_MS / (minutes * 60_000)));
const judged = judge(before, steady.slice(warmUp), after);
const soak: Soak = {
  minutes,
  work,
  about: [
    `${new Date().toISOString().slice(0, 10)}, ${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), Node ${process.version}, ZooKeeper ${zookeeper.version}; load average ${load.toFixed(1)} when the steady phase began.`,
  ],
  samples,
  steady: steady.slice(warmUp),
  told,
  judged,
};
const out = resolve(ROOT, values.out);
await writeReport(out, soak);
for (const replica of replicas) await replica.stop();
await zookeeper.stop();
const failures = failuresOf(soak);
for (const failure of failures) say(`FAILED: ${failure}`);
say(`${failures.length === 0 ? 'level' : 'not level'}: ${join(out, 'README.md')}`);
process.exit(failures.length === 0 ? 0 : 1);
