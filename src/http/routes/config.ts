/** `/v1/config`: the requests about configuration keys, in the words of the contract. */
import { InvalidError, PosternError } from '../../errors.js';
import type { ConfigValue } from '../../recipes/config/entry.js';
import type { ConfigObservers, KeyState } from '../../recipes/config/observers.js';
import type { ConfigOperation } from '../../recipes/config/plan.js';
import { ConfigReadings, listKeys } from '../../recipes/config/view.js';
import type { ConfigWriter } from '../../recipes/config/write.js';
import type { Coordination } from '../../recipes/coordination.js';
import { attemptOf, newAttempt, type Attempt } from '../../recipes/marks.js';
import { endReason } from '../../time.js';
import type { RawBody } from '../body.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { headerOf } from '../call-exchange.js';
import { batchOf, etagsOf } from './config-batch.js';
import { describeKey, keyStream, prefixStream } from './config-streams.js';
import { matchesEtag } from './etag.js';
import { guardOf } from './guard.js';
import { namespaceOfReader, pageOfAllowed, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export interface ConfigContext {
  context: Coordination;
  writer: ConfigWriter;
  observers: ConfigObservers;
}

/** Pages end with a key, which the contract bounds. */
const KEY = /^[A-Za-z0-9._~/-]{1,1024}$/;

/** Whatever a value is, a browser that opens it runs nothing of it. */
const SANDBOX = { 'Content-Security-Policy': 'sandbox' };

export function configRoutes(config: ConfigContext): Routes {
  const routes = new ConfigRoutes(config);
  return {
    showConfig: (exchange) => routes.show(exchange),
    putConfig: (exchange) => routes.put(exchange),
    deleteConfig: (exchange) => routes.delete(exchange),
    listConfig: (exchange) => routes.list(exchange),
    writeConfig: (exchange) => routes.writeMany(exchange),
  };
}

class ConfigRoutes {
  readonly #context: Coordination;
  readonly #writer: ConfigWriter;
  readonly #observers: ConfigObservers;
  readonly #readings: ConfigReadings;

  constructor({ context, writer, observers }: ConfigContext) {
    this.#context = context;
    this.#writer = writer;
    this.#observers = observers;
    this.#readings = new ConfigReadings(context);
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const key = keyOf(exchange);
    const path = this.#context.layout.configKey(namespace, key);
    if (exchange.wantsEvents) return keyStream(exchange, this.#observers, path, key);
    const { waitMs = 0, consistency } = exchange.query as { waitMs?: number; consistency?: string };
    const known = headerOf(exchange.headers['if-none-match']);
    const isNew = (value: ConfigValue | undefined): boolean =>
      known === undefined ? value !== undefined : value === undefined || !matchesEtag(known, `"${value.etag}"`);
    if (waitMs > 0) {
      const found = await this.#untilNew(exchange, path, isNew, waitMs);
      if (found.is === 'new') return showValue(key, found.value);
    }
    const deadline = exchange.deadline + waitMs;
    const value =
      consistency === 'stale'
        ? await this.#readings.readStale(path, deadline)
        : // A wait that was in vain says what is there at its end.
          await this.#readings.read(path, waitMs > 0 ? performance.now() : exchange.receivedAt, deadline);
    if (value !== undefined && !isNew(value)) return { status: 304, headers: { ETag: `"${value.etag}"` } };
    return showValue(key, value);
  }

  async put(exchange: Exchange): Promise<Answer> {
    const { bytes, contentType } = exchange.body as RawBody;
    const key = keyOf(exchange);
    const operation: ConfigOperation = {
      type: 'put',
      key,
      contentType,
      bytes,
      ifMatch: etagsOf(conditionOf(exchange, 'If-Match')),
      ifAbsent: conditionOf(exchange, 'If-None-Match') !== undefined,
    };
    const what = ['put', key, contentType, bytes];
    const [written] = await this.#write(exchange, [operation], exchange.idempotencyKey, what);
    const etag = written?.etag as string;
    const body: Schemas['WrittenKey'] = { key, etag };
    return { status: written?.status ?? 200, body, headers: { ETag: `"${etag}"` } };
  }

  async delete(exchange: Exchange): Promise<Answer> {
    const key = keyOf(exchange);
    const operation: ConfigOperation = { type: 'delete', key, ifMatch: etagsOf(conditionOf(exchange, 'If-Match')) };
    await this.#write(exchange, [operation], exchange.idempotencyKey, ['delete', key]);
    return { status: 204 };
  }

  async writeMany(exchange: Exchange): Promise<Answer> {
    const request = exchange.body as Schemas['WriteConfigRequest'];
    const operations = batchOf(request);
    const what = operations.flatMap((operation) => [
      operation.type,
      operation.key,
      ...(operation.type === 'put' ? [operation.contentType, operation.bytes] : []),
    ]);
    const written = await this.#write(exchange, operations, requestIdOf(exchange, request) || undefined, what);
    const body: Schemas['WrittenConfig'] = {
      items: written.map(({ type, key, status, etag }) => ({
        [type]: key,
        status,
        ...(etag === undefined ? {} : { etag }),
      })),
    };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer | EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const page = pageOfAllowed(exchange, namespace, 'read', KEY);
    if (exchange.wantsEvents) return prefixStream(exchange, this.#observers, namespace, page);
    const stale = exchange.query['consistency'] === 'stale';
    const { items, next } = await listKeys(this.#context, namespace, page, exchange.deadline, stale);
    const body: Schemas['ConfigList'] = { items: items.map(describeKey), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async #write(
    exchange: Exchange,
    operations: readonly ConfigOperation[],
    requestId: string | undefined,
    what: Parameters<typeof attemptOf>[2],
  ): ReturnType<ConfigWriter['write']> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases, 'use');
    const guard = guardOf(exchange);
    // Whether the hold is current is what a reader of the lock may know, and whoever holds it does.
    if (guard !== undefined) exchange.authorize(['use', 'read'], namespace, guard);
    for (const { type, key } of operations)
      exchange.authorize(type === 'check' ? ['read', 'use'] : 'use', namespace, { name: key });
    const attempt: Attempt =
      requestId === undefined ? newAttempt() : attemptOf(['config', namespace, exchange.principal.id], requestId, what);
    return this.#writer.write({
      namespace,
      operations,
      guard,
      attempt,
      deadline: exchange.deadline,
    });
  }

  /** Waits until the value is not the known one, as read after the observer has said so. */
  async #untilNew(
    exchange: Exchange,
    path: string,
    isNew: (value: ConfigValue | undefined) => boolean,
    waitMs: number,
  ): Promise<{ is: 'new'; value: ConfigValue | undefined } | { is: 'known' }> {
    const deadline = exchange.receivedAt + waitMs;
    let since = exchange.receivedAt;
    /** What the observer still said when it was not true any more. */
    let outdated: string | undefined;
    const wanted = ({ etag, value }: KeyState): boolean => etag !== outdated && isNew(value);
    for (;;) {
      const state = await this.#observers.untilKey(path, wanted, deadline, exchange.signal);
      if (state === undefined) {
        if (endReason(exchange.signal) === 'draining')
          throw new PosternError('draining', 'This replica is shutting down; repeat the request.');
        return { is: 'known' };
      }
      const value = await this.#readings.read(path, since, exchange.deadline + waitMs);
      if (isNew(value)) return { is: 'new', value };
      since = performance.now();
      outdated = state.etag;
    }
  }
}

function showValue(key: string, value: ConfigValue | undefined): Answer {
  if (value === undefined) throw new PosternError('not-found', `There is no key "${key}".`, { members: { key } });
  const { bytes, contentType, etag } = value;
  return { status: 200, body: bytes, contentType, headers: { ETag: `"${etag}"`, ...SANDBOX } };
}

/** Elsewhere an empty header is none. Here that would let a write happen that shall depend on something. */
function conditionOf({ headers }: Exchange, name: 'If-Match' | 'If-None-Match'): string | undefined {
  const value = headers[name.toLowerCase()] as string | undefined; // node never makes lists of these headers
  if (value === '') throw new InvalidError(name, value, 'absent, or a condition');
  return value;
}

function keyOf(exchange: Exchange): string {
  return exchange.params['key'] as string;
}
