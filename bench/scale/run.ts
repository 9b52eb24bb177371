/**
 * What one ensemble carries: what a transaction costs its leader and a follower, measured on three servers, and how
 * many replicas that is enough for, by simulation.
 *
 *   npx tsx bench/scale/run.ts [--seconds 4] [--cores 4] [--delay 2] [--per-replica 10000] [--alone 0.5]
 *
 * `--cores` are those of the leader, `--delay` the ms of a write that are no work of the leader (the way there and
 * back, the votes, the logs), `--per-replica` the writes a second of one replica, `--alone` those of them that share no
 * transaction. The defaults are locks that are taken and given back, at replicas whose one core has nothing else to do.
 * Servers are processes on loopback and end with this one.
 */
import { parseArgs } from 'node:util';
import { digits } from '../statistics.js';
import { fitted, measureCosts } from './costs.js';
import { simulate, type Leader } from './simulate.js';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    cores: { type: 'string', default: '4' },
    delay: { type: 'string', default: '2' },
    'per-replica': { type: 'string', default: '10000' },
    alone: { type: 'string', default: '0.5' },
  },
});

const REPLICAS = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256];
const SIMULATED_MS = 4_000;

const costs = await measureCosts(Number(values.seconds) * 1_000);
console.log('CPU per request, µs');
console.table(
  costs.map(({ what, leader, follower }) => ({ what, leader: digits(leader), follower: digits(follower) })),
);
const { perTransactionUs, perWriteUs } = fitted(costs);
console.log(`leader: ${digits(perTransactionUs)} µs a transaction, and ${digits(perWriteUs)} µs for each write in it`);

const leader: Leader = {
  perTransactionUs,
  perWriteUs,
  cores: Number(values.cores),
  delayMs: Number(values.delay),
};
const load = { perReplica: Number(values['per-replica']), alone: Number(values.alone) };
console.table(
  REPLICAS.map((replicas) => {
    const { done, refused, perTransaction, p50, p99 } = simulate(leader, { ...load, replicas }, SIMULATED_MS);
    return {
      replicas,
      'writes wanted a second': replicas * load.perReplica,
      'done a second': Math.round(done),
      refused: digits(refused),
      'writes per transaction': digits(perTransaction),
      'median, ms': digits(p50),
      'p99, ms': digits(p99),
    };
  }),
);
process.exit(0);
