/**
 * Headers that keep browsers and caches from guessing, keeping, framing and running: on every answer, whatever it is.
 */
import { describe, expect, it } from 'vitest';
import { openApi } from '../../src/http/contract/openapi.js';
import { securityComplaints } from '../support/http/security-headers.js';
import { rawConnection, parseAnswer, send, type Method } from './client.js';
import { startFrame } from './harness.js';
import { eventually } from '../support/eventually.js';

const PATHS: Record<string, string> = { code: 'draining', key: 'a/b', page: 'locks' };

/**
 * What successful answers say is checked wherever a test gets one (`contract.ts`); here those that fail, and those of
 * no operation.
 */
describe('every answer', () => {
  it('of every operation has them, also when it fails', async () => {
    await using frame = await startFrame();
    const statuses = new Set<number>();
    for (const { method, template, operationId } of openApi().operations) {
      const path = template.replace(/\{(\w+)\}/g, (_, name: string) => PATHS[name] ?? 'x');
      const response = await send(frame.url, method.toLowerCase() as Method, path);
      statuses.add(response.status);
      expect([operationId, securityComplaints(operationId, response)]).toEqual([operationId, []]);
    }
    expect([...statuses]).toEqual(expect.arrayContaining([200, 302, 422, 500]));
  });

  it('of no operation has them too', async () => {
    await using frame = await startFrame();
    for (const [method, path] of [
      ['get', '/nowhere'],
      ['put', '/v1/locks/a'],
      ['options', '/v1/locks/a'],
      ['get', '/v1/%zz'],
      ['get', `/${'x'.repeat(9_000)}`],
    ] as [Method, string][]) {
      const response = await send(frame.url, method, path);
      expect([path, securityComplaints(undefined, response)]).toEqual([path, []]);
    }
    await using connection = await rawConnection(frame.url);
    connection.socket.write('nonsense\r\n\r\n');
    await eventually('it is answered', () => connection.ended());
    expect(securityComplaints(undefined, parseAnswer(connection.received()))).toEqual([]);
  });
});

describe('the check that all tests make of every answer', () => {
  const good = {
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  };

  it.each([
    ['nosniff is missing', 'showLock', { ...good, 'x-content-type-options': '' }],
    ['a page elsewhere may show it', 'showLock', { ...good, 'cross-origin-resource-policy': 'cross-origin' }],
    ['it may be kept', 'showLock', { ...good, 'cache-control': 'max-age=60' }],
    ['it may be kept with an ETag', 'showLock', { ...good, 'cache-control': 'public, no-cache', etag: '"1"' }],
    ['a value may run', 'showConfig', { ...good, 'content-type': 'text/html' }],
    ['a page may be framed', 'docs', { ...good, 'content-type': 'text/html', 'referrer-policy': 'no-referrer' }],
    ['it says what serves', 'showLock', { ...good, server: 'x' }],
  ])('complains when %s', (_what, operationId, headers: Record<string, string>) => {
    expect(securityComplaints(operationId, { status: 200, headers })).toHaveLength(1);
  });
});
