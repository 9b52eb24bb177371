/** The load generator: a process that gets one job as a message, does it, answers with what was measured, and ends. */
import { empty } from './empty.js';
import { heartbeats } from './heartbeats.js';
import type { Job, Scenario } from './job.js';
import { locks } from './locks.js';
import { Meter } from './meter.js';

const SCENARIOS: Record<Scenario, (job: Job, meter: Meter) => Promise<void>> = {
  lock: locks,
  heartbeat: heartbeats,
  empty,
};

process.once('message', (job: Job) => {
  const meter = new Meter(job);
  SCENARIOS[job.scenario](job, meter).then(
    () => process.send?.(meter.result(), () => process.exit(0)),
    (error: Error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
