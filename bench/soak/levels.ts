/**
 * What has to stay level while the work is the same, and to be back when all has been given back. Margins are what a
 * garbage collector, or a queue between two moments, makes of a level; a leak of one in ten thousand operations shows
 * beyond them in half an hour.
 */
import { median, quantile } from '../statistics.js';
import type { ReplicaSample, Sample } from './samples.js';

export interface Level {
  readonly name: string;
  readonly unit: string;
  /** What it was over that time. */
  readonly of: (samples: readonly Sample[]) => number;
  /** By so much may the last fifth of the steady phase be above the first, and what is left above what was before. */
  readonly share: number;
  readonly amount: number;
  /** How much more than before may be left. Undefined: what a process keeps for the next time is not given back. */
  readonly left?: number;
}

/** The share of the time that memory is as low as is told of it. */
const BOTTOM = 0.1;

const middle = (of: (sample: Sample) => number) => (samples: readonly Sample[]) => median(samples.map(of));

/** The same for every replica, added up. */
const each = (of: (replica: ReplicaSample) => number) =>
  middle(({ replicas }) => replicas.reduce((sum, replica) => sum + of(replica), 0));

/**
 * Of what a collector of garbage takes back when it likes: how low it falls then is what is held. How high it rises
 * meanwhile says only how much the collector let lie.
 */
const bottom = (of: (replica: ReplicaSample) => number) => (samples: readonly Sample[]) =>
  (samples[0]?.replicas ?? []).reduce((sum, _, i) => {
    const figures = samples.flatMap(({ replicas: { [i]: replica } }) => (replica === undefined ? [] : [of(replica)]));
    return sum + quantile(figures, BOTTOM);
  }, 0);

export const LEVELS: readonly Level[] = [
  { name: 'resident memory of the replicas', unit: 'MiB', of: bottom((r) => r.rssMiB), share: 0.15, amount: 20 },
  { name: 'heap in use', unit: 'MiB', of: bottom((r) => r.heapMiB), share: 0.15, amount: 10, left: 60 },
  { name: 'descriptors', unit: '', of: each((r) => r.descriptors), share: 0.02, amount: 40, left: 20 },
  { name: 'timers', unit: '', of: each((r) => r.timers), share: 0.1, amount: 60, left: 20 },
  { name: 'sockets', unit: '', of: each((r) => r.sockets), share: 0.02, amount: 40, left: 20 },
  { name: 'watches that the replicas know', unit: '', of: each((r) => r.watches), share: 0.1, amount: 60, left: 0 },
  { name: 'watches in ZooKeeper', unit: '', of: middle((s) => s.zookeeper.watches), share: 0.1, amount: 60, left: 0 },
  { name: 'znodes', unit: '', of: middle((s) => s.zookeeper.znodes), share: 0.05, amount: 1_500, left: 6_000 },
  // A replica takes the place of the housekeeper, and of who fires schedules, which may be after the first look.
  { name: 'ephemeral znodes', unit: '', of: middle((s) => s.zookeeper.ephemerals), share: 0.05, amount: 600, left: 2 },
  { name: 'sessions', unit: '', of: middle((s) => s.zookeeper.sessions), share: 0.005, amount: 4, left: 0 },
  { name: 'attached leases', unit: '', of: each((r) => r.attached), share: 0.005, amount: 4, left: 0 },
  { name: 'waiters', unit: '', of: each((r) => r.waiters), share: 0.1, amount: 60, left: 0 },
  { name: 'requests in flight', unit: '', of: each((r) => r.inFlight), share: 0.1, amount: 80, left: 0 },
];

export interface Judged {
  readonly level: Level;
  readonly before: number;
  readonly first: number;
  readonly last: number;
  readonly after: number;
  readonly isFlat: boolean;
  readonly isBack: boolean;
}

/** @param steady samples of the time in which the work was the same */
export function judge(before: Sample, steady: readonly Sample[], after: Sample): Judged[] {
  const fifth = Math.max(1, Math.floor(steady.length / 5));
  return LEVELS.map((level) => {
    const [first, last] = [level.of(steady.slice(0, fifth)), level.of(steady.slice(-fifth))];
    const [was, is] = [level.of([before]), level.of([after])];
    return {
      level,
      before: was,
      first,
      last,
      after: is,
      isFlat: last <= first + Math.max(first * level.share, level.amount),
      isBack: level.left === undefined || is <= was + level.left,
    };
  });
}
