import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ERROR_CODES } from '../../src/errors.js';
import { openApi } from '../../src/http/contract/openapi.js';
import type { Readiness } from '../../src/http/routes/operations.js';
import { send } from './client.js';
import { startFrame, type Frame } from './harness.js';

let frame: Frame;
let readiness: Readiness = { ready: true, reasons: [] };
beforeAll(async () => (frame = await startFrame({ config: { opsPort: 0 }, readiness: () => readiness })));
afterAll(() => frame[Symbol.asyncDispose]());

const contractText = readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');

describe('probes', () => {
  it('say that the process is alive, whatever ZooKeeper does', async () => {
    readiness = { ready: false, reasons: ['zookeeper is away'] };
    expect((await send(frame.url, 'get', '/healthz')).body).toEqual({ status: 'ok' });
    readiness = { ready: true, reasons: [] };
  });

  it('say whether the replica is ready, and why not, to strangers only where there is no port for operations', async () => {
    const ops = `http://127.0.0.1:${frame.server.opsPort}`;
    expect((await send(frame.url, 'get', '/readyz')).body).toEqual({ ready: true, reasons: [] });
    readiness = { ready: false, reasons: ['zookeeper is away'] };
    const stranger = await send(frame.url, 'get', '/readyz');
    expect(stranger.status).toBe(503);
    expect(stranger.body).toMatchObject({ code: 'zookeeper-unavailable', ready: false });
    expect(stranger.text).not.toContain('is away');
    await using single = await startFrame({ readiness: () => readiness });
    expect((await send(single.url, 'get', '/readyz')).body).toMatchObject({ reasons: ['zookeeper is away'] });
    const response = await send(ops, 'get', '/readyz');
    expect(response.status).toBe(503);
    expect(response.body).toMatchObject({
      code: 'zookeeper-unavailable',
      ready: false,
      reasons: ['zookeeper is away'],
    });
    readiness = { ready: true, reasons: [] };
  });

  it('say draining while it drains', async () => {
    await using draining = await startFrame({ readiness: () => ({ ready: false, reasons: ['draining'] }) });
    draining.drain.abort();
    expect((await send(draining.url, 'get', '/readyz')).body).toMatchObject({
      code: 'draining',
      reasons: ['draining'],
    });
    expect((await send(draining.url, 'get', '/healthz')).status).toBe(200);
  });

  it('are served apart on the operations port, and nothing else is', async () => {
    const ops = `http://127.0.0.1:${frame.server.opsPort}`;
    for (const path of ['/healthz', '/readyz', '/metrics']) expect((await send(ops, 'get', path)).status).toBe(200);
    // Names of queues are in the metrics: where they are told apart, strangers at the main port are told nothing.
    expect((await send(frame.url, 'get', '/metrics')).status).toBe(404);
    for (const path of ['/healthz', '/readyz']) expect((await send(frame.url, 'get', path)).status).toBe(200);
    for (const path of ['/v1/status', '/v1/locks', '/docs']) expect((await fetch(ops + path)).status).toBe(404);
  });
});

describe('/metrics', () => {
  it('is what Prometheus reads', async () => {
    const ops = `http://127.0.0.1:${frame.server.opsPort}`;
    const response = await send(ops, 'get', '/metrics', (test) =>
      test.set('Accept', 'application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'),
    );
    expect(response.headers['content-type']).toContain('text/plain; version=0.0.4');
    expect(response.text).toContain('postern_build_info{version="test"');
  });
});

describe('/v1/status', () => {
  it('shows version, bounds and limits', async () => {
    const response = await send(frame.url, 'get', '/v1/status');
    expect(response.body).toMatchObject({
      version: '0.0.0-test',
      ready: true,
      reasons: [],
      sessionBounds: { minTtlMs: 4000, maxTtlMs: 40_000 },
      limits: { maxWaitMs: 55_000, maxConnections: expect.any(Number) as number },
    });
  });

  it('tells what keeps it from being ready as /readyz does: not where there is a port for operations', async () => {
    for (const ready of [false, true]) {
      const told = { ready, reasons: ['Ensemble "west": zookeeper is away (10.0.0.7:2181)'] };
      readiness = told;
      const shown = await send(frame.url, 'get', '/v1/status');
      expect(shown.body).toMatchObject({ ready, reasons: ['Why is told at the port for operations.'] });
      expect(shown.text).not.toContain('west');
      await using single = await startFrame({ readiness: () => told });
      expect((await send(single.url, 'get', '/v1/status')).body).toMatchObject(told);
    }
    readiness = { ready: true, reasons: [] };
  });
});

describe('the contract', () => {
  it('is served byte for byte, and as JSON', async () => {
    expect((await send(frame.url, 'get', '/openapi.yaml')).text).toBe(contractText);
    expect((await send(frame.url, 'get', '/openapi.json')).body).toEqual(parse(contractText));
  });

  it('gives every operation its own id, a tag with a description, and the answer to a bad method', () => {
    const { operations, document } = openApi();
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
    const tags = document.tags.map(({ name }) => name);
    for (const { source, responses } of operations) {
      expect(tags).toEqual(expect.arrayContaining(source.tags));
      expect(Object.keys(responses)).toContain('405');
    }
  });
});

describe('pages', () => {
  it('/ leads to the documentation', async () => {
    const response = await send(frame.url, 'get', '/', (test) => test.redirects(0).ok(({ status }) => status === 302));
    expect(response.headers['location']).toBe('/docs');
  });

  it.each(Object.keys(ERROR_CODES))('/problems/%s explains the code', async (code) => {
    const page = await send(frame.url, 'get', `/problems/${code}`);
    expect(page.text).not.toMatch(/<script|<style|<img|<iframe|style="|onclick|src=/);
    expect(page.text).toContain(`code ${code}`);
    const asJson = await send(frame.url, 'get', `/problems/${code}`, (test) => test.set('Accept', 'application/json'));
    const guide = asJson.body as Record<string, string>;
    expect(guide).toMatchObject({ code, ...ERROR_CODES[code as keyof typeof ERROR_CODES] });
    for (const part of ['meaning', 'happened', 'advice']) expect(guide[part]?.length).toBeGreaterThan(20);
    expect(guide['happened']?.startsWith('It may have been done')).toBe(['outcome-unknown', 'internal'].includes(code));
  });

  it.each(['nothing', 'constructor', '__proto__'])('/problems/%s is not found', async (code) => {
    expect((await send(frame.url, 'get', `/problems/${code}`)).status).toBe(404);
  });
});
