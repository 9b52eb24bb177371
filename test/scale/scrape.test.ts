/**
 * What a scrape costs: under 50 ms and 1 MB however much a replica has to do. Names are no labels, so that it does not
 * grow with leases and names; what it may grow to is given by the contract and the settings.
 */
import { describe, expect, test } from 'vitest';
import { openApi, type Operation } from '../../src/http/contract/openapi.js';
import { createMetrics } from '../../src/metrics/metrics.js';
import { startPair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';

const LEASES = 300;
const NAMES = 300;
const SCRAPES = 20;
const SCRAPE_MS_MAX = 50;
const SCRAPE_BYTES_MAX = 1_300_000;
/** What operations answer in the life of a replica, and those that can wait answer to waits. */
const STATUSES = ['200', '409', '503'];
const WAIT_STATUSES = ['200', '499'];
/** More than those of any deployment; with them the default of POSTERN_MAX_QUEUE_LABELS is reached. */
const QUEUES = 51;

function canWait({ operationId, method, parameters, source }: Operation): boolean {
  const body = JSON.stringify(source.requestBody ?? {});
  return (
    operationId.startsWith('watch') ||
    parameters.some(({ name }) => name === 'waitMs') ||
    (method === 'POST' && /Acquire|Campaign|Claim|Pop|Enter|Leave|Vote/.test(body))
  );
}

describe('a scrape', () => {
  test('is under 50 ms and 1.3 MB when every operation has answered well and badly, and all labels of queues are taken', async () => {
    const metrics = createMetrics({ version: 'test', processMetrics: true });
    for (const operation of openApi().operations) {
      const { method, template: route } = operation;
      for (const status of STATUSES) metrics.httpRequestDurationSeconds.observe({ route, method, status }, 0.003);
      if (!canWait(operation)) continue;
      for (const status of WAIT_STATUSES) metrics.httpWaitDurationSeconds.observe({ route, method, status }, 3);
    }
    for (let i = 0; i < QUEUES; i += 1) {
      metrics.queueDepth.set({ queue: `queue-${i}` }, i);
      metrics.queueOldestMessageTimestampSeconds.set({ queue: `queue-${i}` }, i);
    }
    // Time of the processor: what others do on this machine at the same time is not what a scrape costs. It is counted
    // in ticks.
    let bytes = 0;
    await metrics.registry.metrics();
    const start = process.cpuUsage();
    for (let i = 0; i < SCRAPES; i += 1) bytes = Buffer.byteLength(await metrics.registry.metrics());
    const { user, system } = process.cpuUsage(start);
    const ms = (user + system) / 1_000 / SCRAPES;
    console.log(`${bytes} bytes, ${ms.toFixed(1)} ms`);
    expect(bytes).toBeLessThan(SCRAPE_BYTES_MAX);
    expect(ms).toBeLessThan(scaled(SCRAPE_MS_MAX));
  });

  test(`does not grow with ${LEASES} leases that use ${NAMES} names`, { timeout: scaled(120_000) }, async () => {
    await using pair = await startPair();
    const use = async (from: number, count: number): Promise<void> => {
      for (let i = from; i < from + count; i += 20) {
        await Promise.all(
          Array.from({ length: 20 }, async (_, j) => {
            const lease = await pair.a.createLease();
            await pair.a.hold(`lock-${i + j}`, lease);
            await pair.a.expect(200, 'POST', `/v1/counters/counter-${i + j}/add`, { body: { by: 1 } });
            await pair.a.release(`lock-${i + j}`, lease);
          }),
        );
      }
    };
    const lines = async (): Promise<number> => (await scrape()).split('\n').length;
    const scrape = (): Promise<string> => pair.a.expect(200, 'GET', '/metrics') as Promise<string>;
    await use(0, 20);
    await scrape();
    const before = await lines();
    await use(20, LEASES - 20);
    expect(await pair.a.metric('postern_leases_attached')).toBeGreaterThanOrEqual(LEASES);
    // A first answer of some other kind may come meanwhile; a label with names would add one for each.
    expect((await lines()) - before).toBeLessThan(NAMES / 2);
    expect(await scrape()).not.toMatch(/lock-\d|counter-\d/);
  });
});
