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
  await show(first, false);
  const [last] = await openBeside(first, 1);
  await last?.untilLive();
  await first.page.getByText(WAITS).waitFor();
  await show(others[0] as Console, false);
  await show(first, true);
  await first.untilLive();
  await panel(first, '100');
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

/** As the browser does when another tab comes to the front: without a screen it shows all of them. */
async function show({ page }: Console, isSeen: boolean): Promise<void> {
  await page.evaluate((isHidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, value: isHidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, !isSeen);
}
