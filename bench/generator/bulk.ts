/**
 * What pushing many messages in one request gains: single pushes in the first half of the time, `things` at once in the
 * second one.
 */
import { HttpConnection, requestText } from './http-connection.js';
import type { Job } from './job.js';
import { expect, posternHeaders } from './lock-clients.js';
import type { Meter } from './meter.js';

export async function bulk(job: Job, meter: Meter): Promise<void> {
  const clients = await Promise.all(Array.from({ length: job.clients }, () => HttpConnection.open(job.target.port)));
  const halfMs = (job.seconds / 2) * 1_000;
  await pushFor(job, clients, 1, job.warmUpSeconds * 1_000);
  meter.begin();
  const single = await pushFor(job, clients, 1, halfMs, meter);
  const many = await pushFor(job, clients, job.things, halfMs, meter);
  meter.end();
  meter.figures['single pushes, messages/s'] = single;
  meter.figures['bulk pushes, messages/s'] = many;
  meter.figures['bulk / single'] = many / single;
  for (const http of clients) http.close();
}

/** @returns messages per second */
async function pushFor(
  job: Job,
  clients: readonly HttpConnection[],
  atOnce: number,
  ms: number,
  meter?: Meter,
): Promise<number> {
  const body = JSON.stringify({ messages: Array.from({ length: atOnce }, (_, i) => ({ body: `m${i}` })) });
  const path = `/v1/queues/${job.target.names}${atOnce}/messages`;
  const request = requestText('POST', path, posternHeaders(job.target), body);
  const startedAt = performance.now();
  let messages = 0;
  await Promise.all(
    clients.map(async (http) => {
      while (performance.now() - startedAt < ms) {
        const from = performance.now();
        try {
          expect(await http.send(request), 201);
          messages += atOnce;
          meter?.done(from, atOnce);
        } catch (error) {
          meter?.error(error);
          return;
        }
      }
    }),
  );
  return messages / ((performance.now() - startedAt) / 1_000);
}
