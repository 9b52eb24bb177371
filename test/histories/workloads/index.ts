/** All workloads, by kind. */
import type { Workload } from '../workload.js';
import { barrier } from './barrier.js';
import { claims } from './claims.js';
import { config } from './config.js';
import { counter } from './counter.js';
import { doubleBarrier } from './double-barrier.js';
import { downgrade } from './downgrade.js';
import { election } from './election.js';
import { expiring } from './expiring.js';
import { group } from './group.js';
import { grouped } from './grouped.js';
import { lock } from './lock.js';
import { messages } from './messages.js';
import { pool, restingPool } from './pool.js';
import { priority } from './priority.js';
import { queue } from './queue.js';
import { reservation } from './reservation.js';
import { run } from './run.js';
import { rwlock } from './rwlock.js';
import { schedule } from './schedule.js';
import { semaphore } from './semaphore.js';
import { transaction } from './transaction.js';

/** Who runs them all looks into no operation. */
export const workloads: Readonly<Record<string, Workload<unknown, unknown>>> = {
  counter,
  config,
  lock,
  priority,
  reservation,
  rwlock,
  downgrade,
  semaphore,
  pool,
  'resting-pool': restingPool,
  election,
  queue,
  claims,
  expiring,
  grouped,
  barrier,
  'double-barrier': doubleBarrier,
  group,
  messages,
  transaction,
  run,
  schedule,
};
