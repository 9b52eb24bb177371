/** A header that makes a request depend on something is refused where an operation would not heed it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { request } from 'undici';
import { openApi } from '../../../src/http/contract/openapi.js';
import { startFrame, type Frame } from '../harness.js';

let frame: Frame;
beforeAll(async () => (frame = await startFrame({})));
afterAll(() => frame[Symbol.asyncDispose]());

const VALUES = { 'If-Match': '"1-0"', 'If-None-Match': '*', Guard: 'lock=backup;token=1', 'Idempotency-Key': 'k1' };
const { operations } = openApi();
const writing = operations.filter(({ method }) => method !== 'GET');

function pathOf(template: string): string {
  return template.replaceAll(/\{[^}]+\}/g, 'a'.repeat(32));
}

describe.each(Object.entries(VALUES))('%s', (name, value) => {
  const untaken = writing.filter(({ parameters }) => !parameters.some((parameter) => parameter.name === name));

  it.each(untaken.map((operation) => [operation.operationId, operation] as const))(
    'is refused by %s, which does not take it',
    async (_, { method, template }) => {
      const required = { 'lease-token': 'lt1.x', 'fleet-lock-protocol': 'true', 'content-type': 'application/json' };
      const headers = { ...required, [name]: value };
      const reply = await request(frame.url + pathOf(template), { method, headers });
      const body = (await reply.body.json()) as Record<string, unknown>;
      expect(body).toMatchObject({ status: 422, code: 'invalid', field: name, in: 'header', outcome: 'not-applied' });
      expect(body['detail']).toContain(`${method} ${template} takes no header ${name}`);
    },
  );

  it('is nobody’s question where something is read', async () => {
    for (const path of ['/healthz', '/v1/openapi.json'])
      expect((await request(frame.url + path, { headers: { [name]: value } })).statusCode, path).not.toBe(422);
  });
});
