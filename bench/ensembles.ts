/**
 * Whether what is done grows with the number of ensembles, where they are the limit: locks that are taken and given
 * back in two namespaces, which lie on one ensemble, and then on one each.
 *
 *   npx tsx bench/ensembles.ts [--seconds 10] [--rounds 3] [--clients 64] [--flush 20]
 *
 * Each ensemble is one server that is made the limit by its own options: it has four requests in process at most, and
 * writes its log every `--flush` ms. So the processors of this machine are not what is measured. Both servers run all
 * the time, the rounds take turns, and the table has the median of each.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freshDirectory } from './processes.js';
import { startPostern, startZooKeeper, type ZooKeeper } from './servers.js';
import { digits, spreadOf } from './statistics.js';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '3' },
    clients: { type: 'string', default: '64' },
    flush: { type: 'string', default: '20' },
  },
});

const NAMESPACES = ['east', 'west'];
const TTL_MS = 120_000;
const WARM_UP_MS = 2_000;

const config = {
  flushDelay: values.flush,
  request_throttle_max_requests: '4',
  request_throttle_stall_time: '1',
};
const start = (): Promise<ZooKeeper> => startZooKeeper({ heap: '512m', config });
const [first, second] = [await start(), await start()];
const directory = await freshDirectory();

/** Taken and given back, a second. */
async function measure(ensembles: 1 | 2): Promise<number> {
  const file = join(directory, 'ensembles.json');
  const namespaces = ensembles === 1 ? {} : { west: 'west' };
  const others = { west: { zookeeper: `127.0.0.1:${second.port}` } };
  await writeFile(file, JSON.stringify({ version: 1, ensembles: others, namespaces }));
  const settings = {
    POSTERN_ENSEMBLES: file,
    POSTERN_ROOT: `/bench-${ensembles}-${Date.now()}`,
    POSTERN_OVERLOAD_DELAY_MS: '0',
  };
  const gateway = await startPostern({ zooKeeperPort: first.port, settings });
  const url = `http://127.0.0.1:${gateway.port}`;
  try {
    await untilServed(url);
    const begin = performance.now() + WARM_UP_MS;
    const end = begin + Number(values.seconds) * 1_000;
    const clients = Array.from({ length: Number(values.clients) }, (_, i) => cycles(url, i, begin, end));
    const done = (await Promise.all(clients)).reduce((sum, count) => sum + count, 0);
    return done / Number(values.seconds);
  } finally {
    await gateway.stop();
  }
}

async function untilServed(url: string): Promise<void> {
  for (;;) {
    const text = await (await fetch(`${url}/metrics`)).text();
    const served = ['default', 'west'].every((name) =>
      text.includes(`postern_ensemble_map_version{ensemble="${name}"} 1\n`),
    );
    if (served) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** One client with a lease and a lock of its own. @returns how often it took it between `begin` and `end` */
async function cycles(url: string, index: number, begin: number, end: number): Promise<number> {
  const namespace = NAMESPACES[index % NAMESPACES.length] as string;
  const post = async (path: string, body: object, headers: Record<string, string>): Promise<Record<string, string>> => {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    };
    const answer = await fetch(url + path, init);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.status === 204 ? {} : ((await answer.json()) as Record<string, string>);
  };
  const { leaseToken = '' } = await post('/v1/leases', { ttlMs: TTL_MS }, { namespace });
  let count = 0;
  for (let i = 0; performance.now() < end; i += 1) {
    const requestId = `${index}-${i}`;
    await post(`/v1/locks/l${index}/acquire`, { requestId }, { 'lease-token': leaseToken });
    await post(`/v1/locks/l${index}/release`, { requestId }, { 'lease-token': leaseToken });
    if (performance.now() >= begin && performance.now() < end) count += 1;
  }
  return count;
}

const figures: Record<1 | 2, number[]> = { 1: [], 2: [] };
for (let round = 0; round < Number(values.rounds); round += 1)
  for (const ensembles of [1, 2] as const) figures[ensembles].push(await measure(ensembles));
const [one, two] = [spreadOf(figures[1]), spreadOf(figures[2])];
console.table(
  [one, two].map(({ median, min, max }, i) => ({
    ensembles: i + 1,
    'locks taken and given back a second': digits(median),
    from: digits(min),
    to: digits(max),
    'of one': digits(median / one.median),
  })),
);
await Promise.all([first.stop(), second.stop()]);
process.exit(0);
