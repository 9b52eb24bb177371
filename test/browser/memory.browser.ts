/**
 * A tab that is left open while everything changes: it does not grow. For some seconds, or, to be sure, for as long as
 * `CONSOLE_MINUTES` says; that many say what they have measured, too.
 */
import { env } from 'node:process';
import type { CDPSession } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LeaseHandle } from '../support/http/client.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { timing } from '../support/timing.js';
import { Console, useBrowser } from './browser.js';

useBrowser();

const MINUTES = minutes();
const FOR_MS = (MINUTES ?? 0.2) * 60_000;
/** Until then the browser still compiles, and all that is shown is shown for the first time. */
const SETTLED_MS = FOR_MS / 3;
const THINGS = 50;
/** Every view that is shown of what changes, again and again. */
const VIEWS = ['overview', 'lines', 'lines/lock/busy-1', 'counters', 'counters/counter/c1', 'contention', 'leases'];
/** Where each reading is taken. */
const HOME = 'lines';
const LOOKS = 20;
const GROWTH_MAX_BYTES = 500_000;
/** The list that was shown last, which is not always collected at once. */
const GROWTH_MAX_NODES = 1_500;
const GROWTH_MAX_LISTENERS = 50;

function minutes(): number | undefined {
  const text = env['CONSOLE_MINUTES'] ?? '';
  if (text === '') return undefined;
  if (!(Number(text) > 0)) throw new Error(`CONSOLE_MINUTES is "${text}": give a positive number`);
  return Number(text);
}

let replica: Replica;
let lease: LeaseHandle;
beforeAll(async () => {
  replica = await startReplica();
  lease = await replica.createLease({ ttlMs: 250_000, label: 'busy' });
});
afterAll(() => replica[Symbol.asyncDispose]());

/** Something of several kinds comes, changes and goes. @returns how many changes that were */
async function change(): Promise<number> {
  const names = Array.from({ length: THINGS }, (_, i) => `busy-${i}`);
  const { leaseToken } = lease;
  await replica.heartbeat(lease);
  await replica.expect(200, 'POST', '/v1/locks/acquire', { body: { names }, leaseToken });
  await Promise.all(names.map((_, i) => replica.expect(200, 'POST', `/v1/counters/c${i}/add`, { body: { by: 1 } })));
  await Promise.all(names.map((name) => replica.release(name, lease)));
  return 3 * THINGS;
}

interface Reading {
  readonly bytes: number;
  readonly nodes: number;
  readonly listeners: number;
}

/** What is there when nothing is held, and after everything that nobody needs was collected. */
async function read(tab: Console, debug: CDPSession): Promise<Reading> {
  await tab.go(HOME);
  await tab.page.getByText('Nobody holds a lock').waitFor();
  await debug.send('HeapProfiler.collectGarbage');
  const bytes = (await debug.send('Runtime.getHeapUsage')).usedSize;
  const { metrics } = await debug.send('Performance.getMetrics');
  const valueOf = (wanted: string): number => metrics.find(({ name }) => name === wanted)?.value ?? NaN;
  return { bytes, nodes: valueOf('Nodes'), listeners: valueOf('JSEventListeners') };
}

/** The least of several readings: what is not yet collected in one of them is in the next. */
function least(readings: readonly Reading[]): Reading {
  const of = (key: keyof Reading): number => Math.min(...readings.map((one) => one[key]));
  return { bytes: of('bytes'), nodes: of('nodes'), listeners: of('listeners') };
}

it(
  'takes no more memory, nodes and listeners after many changes',
  { timeout: FOR_MS + 2 * timing.testMs },
  async () => {
    await using tab = await Console.open(replica.url, { at: HOME });
    await tab.untilLive();
    const debug = await tab.page.context().newCDPSession(tab.page);
    await debug.send('Performance.enable');
    const begin = performance.now();
    const readings: (Reading & { atMs: number })[] = [];
    let changes = 0;
    for (let round = 0; performance.now() - begin < FOR_MS; round += 1) {
      await tab.go(VIEWS[round % VIEWS.length] as string);
      changes += await change();
      const atMs = performance.now() - begin;
      if (atMs >= (readings.length * FOR_MS) / LOOKS) readings.push({ ...(await read(tab, debug)), atMs });
    }
    console.log(`${changes} changes`, readings);
    const settled = readings.filter(({ atMs }) => atMs >= SETTLED_MS);
    const third = Math.floor(settled.length / 3);
    const [before, after] = [least(settled.slice(0, third)), least(settled.slice(-third))];
    expect(after.bytes - before.bytes).toBeLessThan(GROWTH_MAX_BYTES);
    expect(after.nodes - before.nodes).toBeLessThan(GROWTH_MAX_NODES);
    expect(after.listeners - before.listeners).toBeLessThan(GROWTH_MAX_LISTENERS);
  },
);
