/** All workloads, by kind. */
import type { Workload } from '../workload.js';
import { config } from './config.js';
import { counter } from './counter.js';
import { election } from './election.js';
import { lock } from './lock.js';
import { queue } from './queue.js';
import { rwlock } from './rwlock.js';
import { semaphore } from './semaphore.js';

/** Who runs them all looks into no operation. */
export const workloads: Readonly<Record<string, Workload<unknown, unknown>>> = {
  counter,
  config,
  lock,
  rwlock,
  semaphore,
  election,
  queue,
};
