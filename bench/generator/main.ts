/** The load generator: a process that gets one job as a message, does it, answers with what was measured, and ends. */
import { bulk } from './bulk.js';
import { depth } from './depth.js';
import { empty } from './empty.js';
import { heartbeats } from './heartbeats.js';
import { herd } from './herd.js';
import type { Job, Restarted, Scenario } from './job.js';
import { leases } from './leases.js';
import { locks } from './locks.js';
import { Meter } from './meter.js';
import { queues } from './queues.js';
import { waiting } from './waiting.js';

const SCENARIOS: Record<Scenario, (job: Job, meter: Meter, restart: () => Promise<number>) => Promise<void>> = {
  lock: locks,
  queue: queues,
  bulk,
  depth,
  heartbeat: heartbeats,
  leases,
  empty,
  herd,
  waiting,
};

process.once('message', (job: Job) => {
  const meter = new Meter(job);
  SCENARIOS[job.scenario](job, meter, restart).then(
    () => process.send?.(meter.result(), () => process.exit(0)),
    (error: Error) => {
      console.error(error);
      process.exit(1);
    },
  );
});

function restart(): Promise<number> {
  return new Promise((resolve) => {
    process.once('message', ({ pid }: Restarted) => resolve(pid));
    process.send?.({ restart: true });
  });
}
