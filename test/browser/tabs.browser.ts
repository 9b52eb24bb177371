/** Several tabs of one browser at one gateway: it has six connections for all of them together. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { Console, useBrowser } from './browser.js';

useBrowser();

/** Over HTTP/1.1, of one browser to one host. */
const CONNECTIONS_MAX = 6;
const WITH_STREAM = 5;
const WAITS = 'Five other windows of this console are open.';

let replica: Replica;
let server: SeenByServer;
beforeEach(async () => {
  replica = await startReplica();
  await replica.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 100 } });
  server = new SeenByServer();
});
afterEach(async () => {
  server[Symbol.dispose]();
  await replica[Symbol.asyncDispose]();
});

/**
 * What a server of this process has of browsers: connections for what the console asks, and streams on them. The page
 * and its script come over others, because they are asked for with credentials, if there were any.
 */
class SeenByServer implements Disposable {
  readonly #sockets = new Set<Socket>();
  readonly #streams = new Set<ServerResponse>();
  readonly #note = (message: unknown): void => {
    const { request, response, socket } = message as {
      request: IncomingMessage;
      response: ServerResponse;
      socket: Socket;
    };
    const { headers, url = '' } = request;
    if (!/Chrome/.test(headers['user-agent'] ?? '') || url.startsWith('/console')) return;
    this.#sockets.add(socket);
    if (url.startsWith('/v1/events')) this.#streams.add(response);
  };

  constructor() {
    subscribe('http.server.request.start', this.#note);
  }

  get connections(): number {
    return [...this.#sockets].filter(({ destroyed }) => !destroyed).length;
  }

  get streams(): number {
    return [...this.#streams].filter(({ destroyed, writableEnded }) => !destroyed && !writableEnded).length;
  }

  [Symbol.dispose](): void {
    unsubscribe('http.server.request.start', this.#note);
  }
}

const panel = (tab: Console, text: string): Promise<void> => tab.page.locator('.panel').getByText(text).waitFor();

/** Tabs of one window, of which the first is given. */
async function openBeside(first: Console, count: number): Promise<Console[]> {
  const tabs: Console[] = [];
  for (let i = 0; i < count; i += 1) tabs.push(await first.another('counters/counter/visits'));
  return tabs;
}

it('four tabs have a stream each, are all live, and see the same change', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const tabs = [first, ...(await openBeside(first, 3))];
  for (const tab of tabs) await tab.untilLive();
  for (const tab of tabs) await panel(tab, '100');
  await replica.expect(200, 'POST', '/v1/counters/visits/add', { body: { by: 1 } });
  for (const tab of tabs) await panel(tab, '101');
  for (const { requests } of tabs) expect(requests.filter((each) => each === 'GET /v1/events')).toHaveLength(1);
  expect(server.streams).toBe(tabs.length);
  // Each has its stream's own, and what they ask for goes over the two that are left.
  expect(server.connections).toBeGreaterThanOrEqual(tabs.length);
  expect(server.connections).toBeLessThanOrEqual(CONNECTIONS_MAX);
});

it('a seventh tab says why it is not live, and is as soon as others are closed', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const live = [first, ...(await openBeside(first, WITH_STREAM - 1))];
  for (const tab of live) await tab.untilLive();
  const waiting = await openBeside(first, 2);
  for (const { page } of waiting) await page.getByText(WAITS).waitFor();
  expect(await (waiting[1] as Console).findings()).toEqual([]);
  expect([server.streams, server.connections]).toEqual([WITH_STREAM, CONNECTIONS_MAX]);
  // There is a connection left for what they ask.
  await (waiting[1] as Console).go('transactions');
  await (waiting[1] as Console).page.getByText('There is no transaction').first().waitFor();

  for (const tab of live.slice(3)) await tab.page.close();
  for (const tab of waiting) await tab.untilLive();
  expect(await (waiting[1] as Console).page.getByText(WAITS).count()).toBe(0);
  await eventually('each has one stream', () => server.streams === WITH_STREAM);
});

it('a tab that nobody sees gives way to one that is seen, and is live when it is seen again', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const others = await openBeside(first, WITH_STREAM - 1);
  for (const tab of [first, ...others]) await tab.untilLive();
  await first.show(false);
  const [last] = await openBeside(first, 1);
  await last?.untilLive();
  await first.page.getByText(WAITS).waitFor();
  await (others[0] as Console).show(false);
  await first.show(true);
  await first.untilLive();
  await panel(first, '100');
});

it('a tab that waits and is seen takes the place of the first that is hidden, and of no other', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const tabs = [first, ...(await openBeside(first, WITH_STREAM - 1))];
  for (const tab of tabs) await tab.untilLive();
  const [sixth] = (await openBeside(first, 1)) as [Console];
  await sixth.page.getByText(WAITS).waitFor();
  await first.show(false);
  await sixth.untilLive();
  await first.page.getByText(WAITS).waitFor();

  for (const tab of [...tabs.slice(1), sixth]) await tab.show(false);
  const [seventh] = (await openBeside(first, 1)) as [Console];
  await seventh.untilLive();
  // The first has waited for longer, and hands on what it is given.
  const others = [...tabs.slice(1), sixth];
  const streams = others.map(({ requests }) => requests.filter((each) => each === 'GET /v1/events').length);
  expect(streams).toEqual(others.map(() => 1));
});

it('where tabs cannot share, the seventh says what it may be waiting for', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits', isShared: false });
  const tabs = [first, ...(await openBeside(first, CONNECTIONS_MAX - 1))];
  for (const tab of tabs) await tab.untilLive();
  const seventh = await first.another('counters/counter/visits');
  await seventh.page.getByText('The gateway has told nothing yet.').waitFor();
  await first.page.close();
  await seventh.untilLive();
  expect(await seventh.page.getByText('The gateway has told nothing yet.').count()).toBe(0);
});

/** What this tab tells the others arrives so much later. */
const SLOWLY_MS = 300;

async function tellSlowly({ page }: Console): Promise<void> {
  await page.evaluate((ms) => {
    const { prototype } = BroadcastChannel as unknown as {
      prototype: { postMessage: (this: BroadcastChannel, said: unknown) => void };
    };
    const post = prototype.postMessage;
    prototype.postMessage = function (said) {
      setTimeout(() => post.call(this, said), ms);
    };
  }, SLOWLY_MS);
}

const streamsOf = (tabs: readonly Console[]): number =>
  tabs.flatMap(({ requests }) => requests.filter((each) => each === 'GET /v1/events')).length;

it('of two that are hidden at once one gives its place away, and the other keeps its stream', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const others = await openBeside(first, WITH_STREAM - 1);
  for (const tab of [first, ...others]) await tab.untilLive();
  const [sixth] = (await openBeside(first, 1)) as [Console];
  await sixth.page.getByText(WAITS).waitFor();
  await tellSlowly(sixth); // both have offered theirs before it takes one
  const hidden = others.slice(0, 2);
  await Promise.all(hidden.map((tab) => tab.show(false)));
  await sixth.untilLive();
  const waits = hidden.map(({ page }) => page.getByText(WAITS));
  await eventually('one of them waits', async () => {
    const counts = await Promise.all(waits.map((each) => each.count()));
    return counts[0] !== counts[1];
  });
  await eventually('all places are taken', () => server.streams === WITH_STREAM);
  expect(streamsOf(hidden)).toBe(2);
});

it('a tab that waits takes another place when the one that it had chosen is seen again', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const [fickle, slow, ...rest] = (await openBeside(first, WITH_STREAM - 1)) as [Console, Console, ...Console[]];
  for (const tab of [first, fickle, slow, ...rest]) await tab.untilLive();
  const [sixth] = (await openBeside(first, 1)) as [Console];
  await sixth.page.getByText(WAITS).waitFor();
  await sixth.show(false);
  await Promise.all([fickle.show(false), slow.show(false)]);
  await tellSlowly(slow); // so that the other one is chosen
  // It is seen again at once after it has offered its place, and before it is told that this was taken.
  await fickle.page.evaluate(() => {
    new BroadcastChannel('postern-console').addEventListener('message', ({ data }: MessageEvent<{ what: string }>) => {
      if (data.what !== 'wanted') return;
      Object.defineProperty(document, 'hidden', { configurable: true, value: false });
      document.dispatchEvent(new Event('visibilitychange'));
    });
  });
  await sixth.show(true);
  await sixth.untilLive();
  await slow.page.getByText(WAITS).waitFor();
  await panel(fickle, '100');
  expect(streamsOf([fickle])).toBe(1);
});

it('says that answers are late when a page beside five live tabs has the last connection', async () => {
  await using first = await Console.open(replica.url, { at: 'counters/counter/visits' });
  const tabs = [first, ...(await openBeside(first, WITH_STREAM - 1))];
  for (const tab of tabs) await tab.untilLive();
  const beside = await first.page.context().newPage();
  await beside.goto(`${replica.url}/docs`);
  await beside.evaluate(async () => {
    // As its examples ask: without cookies, over the same connections as the console.
    const headers = { Accept: 'text/event-stream' };
    await fetch('/v1/counters/visits/events', { headers, credentials: 'omit' });
  });
  await first.go('transactions');
  await first.page.getByText('Answers are late.').waitFor();
  expect(await first.findings()).toEqual([]);
  await beside.close();
  await first.page.getByText('There is no transaction').first().waitFor();
  await first.page.getByText('Answers are late.').waitFor({ state: 'detached' });
});

it('is live where site data is blocked, and keeps nothing', async () => {
  await using tab = await Console.open(replica.url, { at: 'counters/counter/visits', isBlocked: true });
  await tab.untilLive();
  await panel(tab, '100');
  await tab.page.getByLabel('Namespace').fill('elsewhere');
  await tab.page.getByLabel('Namespace').press('Enter');
  await tab.untilLive();
});
