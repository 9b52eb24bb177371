/** A client of the gateway as a test sees it: plain HTTP, with every answer checked against openapi.yaml. */
import { Agent, request, type Dispatcher } from 'undici';
import { eventually } from '../eventually.js';
import { expectContract } from './contract.js';
import { runLog } from '../run-log.js';
import { timing } from '../timing.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- the shape of a body is what the test is about */

export interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: any;
}

export interface CallOptions {
  body?: unknown;
  leaseToken?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface LeaseHandle {
  leaseId: string;
  leaseToken: string;
  ttlMs: number;
  expiresAt: string;
}

export interface Held {
  holdId: string;
  fencingToken: number;
  alreadyHeld: boolean;
}

export class Client implements AsyncDisposable {
  /** A connection per request in flight; long polls last as long as the server lets them. */
  readonly #agent = new Agent({
    connections: null,
    pipelining: 1,
    headersTimeout: 120_000,
    bodyTimeout: 120_000,
    keepAliveTimeout: 30_000,
  });

  constructor(readonly url: string) {}

  async call(method: Dispatcher.HttpMethod, path: string, options: CallOptions = {}): Promise<Reply> {
    const headers: Record<string, string> = { ...options.headers };
    if (options.leaseToken !== undefined) headers['lease-token'] = options.leaseToken;
    if (options.body !== undefined) headers['content-type'] ??= 'application/json';
    const response = await request(this.url + path, {
      method,
      headers,
      dispatcher: this.#agent,
      ...(options.body !== undefined && {
        body:
          typeof options.body === 'string' || Buffer.isBuffer(options.body)
            ? options.body
            : JSON.stringify(options.body),
      }),
      ...(options.signal && { signal: options.signal }),
    });
    const text = await response.body.text();
    runLog.learn(headers, text);
    const type = String(response.headers['content-type'] ?? '');
    const body: unknown = text === '' ? undefined : type.includes('json') ? JSON.parse(text) : text;
    const reply: Reply = { status: response.statusCode, headers: response.headers, body };
    expectContract(method, path, reply);
    return reply;
  }

  /** As `call`, but anything other than one of these statuses fails the test with the whole answer. */
  async expect(
    statuses: number | readonly number[],
    method: Dispatcher.HttpMethod,
    path: string,
    options: CallOptions = {},
  ): Promise<any> {
    const reply = await this.call(method, path, options);
    if (![statuses].flat().includes(reply.status))
      throw new Error(`${method} ${path} answered ${reply.status}: ${JSON.stringify(reply.body)}`);
    return reply.body;
  }

  createLease(body: Record<string, unknown> = {}): Promise<LeaseHandle> {
    return this.expect(201, 'POST', '/v1/leases', { body }) as Promise<LeaseHandle>;
  }

  heartbeat(lease: { leaseToken: string }): Promise<Reply> {
    return this.call('POST', '/v1/leases/self/heartbeat', lease);
  }

  endLease(lease: { leaseToken: string }): Promise<Reply> {
    return this.call('DELETE', '/v1/leases/self', lease);
  }

  showLease(lease: { leaseToken: string }): Promise<Reply> {
    return this.call('GET', '/v1/leases/self', lease);
  }

  /** Resolves when the lease has ended, without keeping it alive by asking. */
  async untilEnded(lease: { leaseId: string }): Promise<void> {
    await eventually(`lease ${lease.leaseId} has ended`, async () => {
      const { items } = (await this.expect(200, 'GET', `/v1/leases?prefix=${lease.leaseId}`)) as { items: unknown[] };
      return items.length === 0;
    });
  }

  acquire(
    name: string,
    lease: { leaseToken: string } | undefined,
    body: Record<string, unknown> = {},
    options: CallOptions = {},
  ): Promise<Reply> {
    return this.call('POST', `/v1/locks/${name}/acquire`, {
      ...options,
      body,
      ...(lease && { leaseToken: lease.leaseToken }),
    });
  }

  /** Acquires, and fails the test when it does not hold. */
  async hold(name: string, lease: { leaseToken: string }, body: Record<string, unknown> = {}): Promise<Held> {
    return this.expect(200, 'POST', `/v1/locks/${name}/acquire`, {
      body,
      leaseToken: lease.leaseToken,
    }) as Promise<Held>;
  }

  release(name: string, lease: { leaseToken: string }, body: Record<string, unknown> = {}): Promise<Reply> {
    return this.call('POST', `/v1/locks/${name}/release`, { body, leaseToken: lease.leaseToken });
  }

  showLock(name: string): Promise<any> {
    return this.expect(200, 'GET', `/v1/locks/${name}`);
  }

  /** Resolves when `count` contenders wait for the lock. */
  async untilWaiting(name: string, count: number): Promise<void> {
    await eventually(
      `${count} wait for ${name}`,
      async () => ((await this.showLock(name)) as { waiterCount: number }).waiterCount >= count,
    );
  }

  async untilReady(): Promise<void> {
    await eventually('the replica is ready', async () => (await this.call('GET', '/readyz')).status === 200, {
      withinMs: timing.processMs,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }
}
