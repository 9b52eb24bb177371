/** `/v1/config`: the requests about configuration keys, in the words of the contract. */
import { PosternError } from '../../errors.js';
import type { ConfigValue } from '../../recipes/config/entry.js';
import { ABSENT, type ConfigObservers, type KeyState } from '../../recipes/config/observers.js';
import type { ConfigOperation } from '../../recipes/config/plan.js';
import type { ConfigRecipe } from '../../recipes/config/recipe.js';
import type { KeySummaries } from '../../recipes/config/summaries.js';
import { listKeys, listValues, readKeyStale } from '../../recipes/config/view.js';
import type { ConfigWriter } from '../../recipes/config/write.js';
import type { Coordination } from '../../recipes/coordination.js';
import { attemptOf, newAttempt, type Attempt } from '../../recipes/marks.js';
import type { Subject } from '../../recipes/observing/observers.js';
import type { Page } from '../../page.js';
import type { RawBody } from '../frame/body.js';
import type { components } from '../contract/contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../frame/exchange.js';
import { headerOf } from '../frame/call.js';
import { batchOf } from './config/batch.js';
import { describeKey, describeKeyState, prefixStream } from './config/streams.js';
import { answerPage, readMany } from './config/values.js';
import { conditionOf, etagsOf } from './shared/etag.js';
import { guardOf } from './shared/guard.js';
import { longPollOf, type LongPoll } from './shared/long-poll.js';
import { sealedPageOf, sealedTokenOf } from './shared/sealed-pages.js';
import type { Building } from './shared/serving.js';
import { StateRoutes } from './shared/state-routes.js';
import { namespaceOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

/** Page tokens end with a key, which the contract bounds. */
const KEY = /^[A-Za-z0-9._~/-]{1,1024}$/;

/** A browser that opens a value runs nothing of it. */
const SANDBOX = { 'Content-Security-Policy': 'sandbox' };

export function configRoutes({ watchables, context, recipes }: Building): Routes {
  const routes = new ConfigRoutes(context, recipes.config);
  watchables.set('config', routes.state);
  return {
    showConfig: (exchange) => routes.state.show(exchange),
    putConfig: (exchange) => routes.put(exchange),
    deleteConfig: (exchange) => routes.delete(exchange),
    listConfig: (exchange) => routes.list(exchange),
    writeConfig: (exchange) => routes.writeMany(exchange),
    readConfig: (exchange) => readMany(exchange, context),
  };
}

interface NamedKey extends Subject {
  key: string;
}

class ConfigRoutes {
  readonly state: StateRoutes<NamedKey, KeyState, ConfigValue | undefined>;
  readonly #context: Coordination;
  readonly #writer: ConfigWriter;
  readonly #observers: ConfigObservers;
  readonly #summaries: KeySummaries;

  constructor(context: Coordination, { writer, observers, summaries }: ConfigRecipe) {
    this.#context = context;
    this.#writer = writer;
    this.#observers = observers;
    this.#summaries = summaries;
    this.state = new StateRoutes(context, {
      what: 'the key',
      observers: observers.keys,
      subject: (namespace, key) => ({ key, path: context.layout.configKey(namespace, key) }),
      namedBy: 'key',
      read: ({ path }, { deadline }) => readKeyStale(context.control, path, deadline),
      etagOf: (value) => (value === undefined ? ABSENT : `"${value.etag}"`),
      show: showValue,
      event: ({ value }, { key }) => describeKeyState(key, value),
      pollOf,
      readsInVain: true,
    });
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
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { pageTokens } = this.#context;
    const list = `config ${namespace}`;
    const page: Page = {
      ...(await sealedPageOf(exchange, pageTokens, list, KEY)),
      shows: (name) => exchange.allows('read', namespace, { name }),
    };
    if (exchange.wantsEvents) return prefixStream(exchange, this.#observers, namespace, page);
    const stale = exchange.query['consistency'] === 'stale';
    const context = { ...this.#context, summaries: this.#summaries };
    if (exchange.query['values'] === true) {
      const { items, next } = await listValues(context, namespace, page, exchange.deadline, stale);
      return answerPage(exchange, items, await sealedTokenOf(exchange, pageTokens, list, next));
    }
    const { items, next } = await listKeys(context, namespace, page, exchange.deadline, stale);
    const token = await sealedTokenOf(exchange, pageTokens, list, next);
    const body: Schemas['ConfigList'] = { items: items.map(describeKey), ...token };
    return { status: 200, body };
  }

  async #write(
    exchange: Exchange,
    operations: readonly ConfigOperation[],
    requestId: string | undefined,
    what: Parameters<typeof attemptOf>[2],
  ): ReturnType<ConfigWriter['write']> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
    const guard = guardOf(exchange);
    // Whether a hold is current may be known to readers of the lock, and to its holder.
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
      requester: exchange.requester,
    });
  }
}

/** Without an ETag a client waits until the key exists. Absence is never a state that the client has. */
function pollOf(exchange: Exchange): LongPoll {
  const { waitMs, isKnown } = longPollOf(exchange);
  const hasEtag = headerOf(exchange.headers['if-none-match']) !== undefined;
  const knows = (etag: string): boolean => etag !== ABSENT && isKnown(etag);
  const isWanted = (etag: string): boolean => (hasEtag ? !knows(etag) : etag !== ABSENT);
  return { waitMs, waits: waitMs > 0, isWanted, isKnown: knows };
}

function showValue(
  value: ConfigValue | undefined,
  { key }: NamedKey,
): Pick<Answer, 'body' | 'contentType' | 'headers'> {
  if (value === undefined) {
    // Other resources have their streams at such a path.
    const hint = key.endsWith('/events')
      ? ' The stream of a key is what GET answers to "Accept: text/event-stream".'
      : '';
    throw new PosternError('not-found', `There is no key "${key}".${hint}`, { members: { key } });
  }
  return { body: value.bytes, contentType: value.contentType, headers: SANDBOX };
}

function keyOf(exchange: Exchange): string {
  return exchange.params['key'] as string;
}
