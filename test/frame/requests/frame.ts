/**
 * A frame that every test of a file asks, and what its handlers saw of it.
 */
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import type { Exchange, Handler } from '../../../src/http/frame/exchange.js';
import { free, held, send, sendRaw } from '../client.js';
import { startFrame, type Frame } from '../harness.js';

export let frame: Frame;

export const seen: Exchange[] = [];

const empty: Handler = (exchange) => {
  seen.push(exchange);
  return Promise.resolve({ status: 200, body: { items: [] } });
};

/** For the file that calls it. */
export function useFrame(): void {
  beforeAll(async () => {
    frame = await startFrame({
      config: { maxBodyBytes: 4096 * 4 },
      routes: {
        acquireLock: (exchange) => {
          seen.push(exchange);
          return held(exchange);
        },
        showLock: (exchange) => {
          seen.push(exchange);
          return free(exchange);
        },
        listLocks: empty,
        listTransactions: empty,
        heartbeatLeases: () => Promise.resolve({ status: 200, body: { items: [] } }),
        endLease: () => Promise.resolve({ status: 204 }),
        releaseLock: () => Promise.resolve({ status: 204 }),
      },
    });
  });
  afterAll(() => frame[Symbol.asyncDispose]());
  beforeEach(() => void seen.splice(0));
}

export function acquire(body?: string, headers: Record<string, string> = {}): ReturnType<typeof send> {
  return send(frame.url, 'post', '/v1/locks/backup/acquire', (test) => {
    for (const [name, value] of Object.entries(headers)) test.set(name, value);
    return body === undefined ? test : test.send(body);
  });
}

/** `text` is Latin-1: a byte for each character. */
export function acquireBytes(text: string): ReturnType<typeof sendRaw> {
  const head = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${text.length}\r\n\r\n`;
  return sendRaw(frame.url, head + text, 'post', '/v1/locks/a/acquire');
}

/** What no request that was refused may have reached. */
export function expectRefused(response: { status: number; body: unknown }, status: number, code: string): void {
  expect(response.status).toBe(status);
  expect(response.body).toMatchObject({ code, status, type: `/problems/${code}`, outcome: 'not-applied' });
  expect(seen).toEqual([]);
}

export const JSON_TYPE = { 'Content-Type': 'application/json' };
