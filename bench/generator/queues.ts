/**
 * Clients that push a message and pop one, so that the depth stays. Checked: no message comes twice, and when the queue
 * has been emptied at the end, none is lost.
 */
import type { Job } from './job.js';
import { sleep, type Meter } from './meter.js';
import { queueClient, type QueueClient, type QueueShared } from './queue-clients.js';

const FILLERS = 16;
const AFTER_AN_ERROR_MS = 10;

export async function queues(job: Job, meter: Meter): Promise<void> {
  const shared: QueueShared = { znodes: [] };
  const opened = Array.from({ length: Math.max(job.clients, FILLERS) }, () => queueClient(job.target, shared));
  const all = await Promise.all(opened);
  let pushed = 0;
  const popped = new Set<string>();
  const push = (client: QueueClient): Promise<void> => client.push(`m${(pushed += 1)}`);
  const pop = async (client: QueueClient): Promise<boolean> => {
    const message = await client.pop();
    if (message === undefined) return false;
    if (popped.has(message)) meter.violation(`message ${message} came twice`);
    popped.add(message);
    return true;
  };

  await Promise.all(
    all.map(async (client) => {
      while (pushed < job.things) await push(client);
    }),
  );
  const work = all.slice(0, job.clients).map(async (client) => {
    while (!meter.over) {
      const from = performance.now();
      try {
        await push(client);
        if (!(await pop(client))) meter.violation('a queue that is never empty had no message');
        meter.done(from);
      } catch (error) {
        meter.error(error);
        await sleep(AFTER_AN_ERROR_MS);
      }
    }
  });
  await meter.run();
  await Promise.all(work);
  await Promise.all(
    all.map(async (client) => {
      while (await pop(client));
    }),
  );
  if (popped.size !== pushed) meter.violation(`${pushed - popped.size} of ${pushed} messages are lost`);
  for (const client of all) client.close();
}
