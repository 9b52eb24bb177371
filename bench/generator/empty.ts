/** A request that costs the server nothing but itself: Postern's status, and the same bytes from node:http. */
import { HttpConnection, requestText } from './http-connection.js';
import type { Job } from './job.js';
import { expect, posternHeaders } from './lock-clients.js';
import type { Meter } from './meter.js';

export const EMPTY_PATH = '/v1/status';

export async function empty(job: Job, meter: Meter): Promise<void> {
  const clients = await Promise.all(Array.from({ length: job.clients }, () => HttpConnection.open(job.target.port)));
  const request = requestText('GET', EMPTY_PATH, posternHeaders(job.target));
  const work = clients.map(async (http) => {
    while (!meter.over) {
      const from = performance.now();
      try {
        expect(await http.send(request), 200);
        meter.done(from);
      } catch (error) {
        meter.error(error);
        return; // the connection may be gone
      }
    }
    http.close();
  });
  await meter.run();
  await Promise.all(work);
}
