/** `/v1/queues`: the requests about queues and their messages, in the words of the contract. */
import { InvalidError, NotHolderError, PosternError } from '../../errors.js';
import { orUnknown } from '../../recipes/behind-write.js';
import type { Coordination } from '../../recipes/coordination.js';
import { attemptOf, type Attempt } from '../../recipes/marks.js';
import { configureQueue } from '../../recipes/queue/admin/manage.js';
import { checkClaimMs, claimWithLease, consume, type Consumed } from '../../recipes/queue/claim/consume.js';
import { BEFORE_DELAYED, peekMessages } from '../../recipes/queue/admin/peek.js';
import { pushMessages, type NewMessage, type Pushed } from '../../recipes/queue/push/push.js';
import type { Queue } from '../../recipes/queue/queue.js';
import { DEDUP_WINDOW_MS, type QueueConfig } from '../../recipes/queue/config.js';
import type { QueueObservers, QueueState, QueueSubject } from '../../recipes/queue/admin/observers.js';
import type { Queues } from '../../recipes/queue/queues.js';
import type { QueueRecipe } from '../../recipes/queue/recipe.js';
import { acknowledge } from '../../recipes/queue/ack/acknowledge.js';
import { giveBack } from '../../recipes/queue/ack/give-back.js';
import { prolong } from '../../recipes/queue/ack/prolong.js';
import { checkGivenBack } from '../../recipes/queue/push/order.js';
import type { Settled } from '../../recipes/queue/ack/settling.js';
import { describeQueue, listQueues } from '../../recipes/queue/admin/view.js';
import { instant } from '../../time.js';

import type { RawBody } from '../frame/body.js';
import type { components } from '../contract/contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../frame/exchange.js';
import { problemOf } from '../frame/problem.js';
import {
  checkBody,
  cursorOf,
  demandOf,
  nothingFound,
  pageTokenOfCursor,
  showClaimed,
  showMessage,
  showPeeked,
  showPushed,
  showQueue,
} from './queue-words.js';
import { claimFromQueues } from './many-queues.js';
import { newLeaseOf } from './shared/one-call.js';
import type { Building } from './shared/serving.js';
import { stateStream } from './shared/state-stream.js';
import type { Watchable } from './shared/watchable.js';
import { leaseOf, namespaceOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function queueRoutes({ watchables, context, recipes, config }: Building): Routes {
  const routes = new QueueRoutes(context, recipes.queue, config.maxMessageBytes);
  watchables.set('queue', routes.watchable);
  return {
    listQueues: (exchange) => routes.list(exchange),
    showQueue: (exchange) => (exchange.wantsEvents ? routes.watch(exchange) : routes.show(exchange)),
    watchQueue: (exchange) => routes.watch(exchange),
    configureQueue: (exchange) => routes.configure(exchange),
    pushMessages: (exchange) => routes.push(exchange),
    pushRawMessage: (exchange) => routes.pushRaw(exchange),
    peekMessages: (exchange) => routes.peek(exchange),
    popMessages: (exchange) => routes.pop(exchange),
    claimMessages: (exchange) => routes.claim(exchange),
    claimFromQueues: (exchange) => claimFromQueues(context, recipes.queue.queues, exchange),
    acknowledgeMessages: (exchange) => routes.acknowledge(exchange),
    releaseMessages: (exchange) => routes.giveBack(exchange),
    extendClaims: (exchange) => routes.prolong(exchange),
  };
}

interface Peeked {
  limit?: number;
  pageToken?: string;
  delayed?: boolean;
}

class QueueRoutes {
  readonly #context: Coordination;
  readonly #queues: Queues;
  readonly #observers: QueueObservers;
  readonly #maxMessageBytes: number;

  /** @param maxMessageBytes the largest body of one message */
  constructor(context: Coordination, { queues, observers }: QueueRecipe, maxMessageBytes: number) {
    this.#context = context;
    this.#queues = queues;
    this.#observers = observers;
    this.#maxMessageBytes = maxMessageBytes;
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { items, next } = await listQueues(
      this.#context,
      namespace,
      pageOfAllowed(exchange, namespace),
      exchange.deadline,
    );
    const body: Schemas['QueueList'] = { items, ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async show(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const view = await describeQueue(this.#context, this.#queues, namespace, name, exchange.deadline);
    if (view === undefined) throw noSuchQueue(name, namespace);
    return { status: 200, body: showQueue(view) };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const name = nameOf(exchange);
    await this.#queues.expect(namespace, name, exchange.deadline);
    const queue = this.#subjectOf(namespace, name);
    return stateStream<QueueState>(
      exchange,
      (subscriber) => this.#observers.subscribe(queue, subscriber),
      ({ view }) => (view === undefined ? undefined : showQueue(view)),
    );
  }

  /** Unlike a stream of its own, it also tells of a queue that is not there yet, or no more: it has no state then. */
  get watchable(): Watchable {
    return {
      pathOf: (namespace, name) => this.#subjectOf(namespace, name).path,
      subscribe: (namespace, name, tell) =>
        this.#observers.subscribe(this.#subjectOf(namespace, name), ({ etag, view }) =>
          tell({ etag, state: view && showQueue(view), inUse: view !== undefined }),
        ),
    };
  }

  #subjectOf(namespace: string, name: string): QueueSubject {
    return { path: this.#context.layout.queue(namespace, name), namespace, name };
  }

  async configure(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
    const name = nameOf(exchange);
    const body = exchange.body as Schemas['QueueConfig'];
    const { deadLetterQueue } = body;
    checkDeadLetterQueue(name, body);
    checkExpiry(body);
    if (deadLetterQueue !== undefined) exchange.authorize('use', namespace, { name: deadLetterQueue });
    const config: QueueConfig = { ...body, dedupWindowMs: body.dedupWindowMs ?? DEDUP_WINDOW_MS };
    const made = await configureQueue(this.#context, this.#queues, { namespace, name }, config, exchange);
    const status = made ? 201 : 200;
    if (!exchange.allows('read', namespace, { name })) {
      const body: Schemas['ConfiguredQueue'] = { name, config };
      return { status, body };
    }
    const view = await orUnknown(describeQueue(this.#context, this.#queues, namespace, name, exchange.deadline));
    if (view === undefined)
      throw new PosternError('conflict', `The queue "${name}" was deleted as soon as it was there.`, {
        outcome: 'unknown',
      });
    return { status, body: showQueue(view) };
  }

  async push(exchange: Exchange): Promise<Answer> {
    const { messages } = exchange.body as Schemas['PushMessagesRequest'];
    const attempts = attemptsOf(exchange, () => [JSON.stringify(messages)]);
    const pushed = await this.#push(
      exchange,
      messages.map(({ body, priority, group, delayMs, expiresInMs, messageId, attributes }, index) => ({
        body: this.#bodyOf(`messages[${index}].body`, Buffer.from(JSON.stringify(body))),
        priority,
        group,
        delayMs,
        expiresInMs,
        messageId,
        attempt: messageId === undefined ? attempts() : undefined,
        attributes,
      })),
    );
    const body: Schemas['PushedMessages'] = { items: pushed.map(showPushed) };
    return { status: 201, body };
  }

  async pushRaw(exchange: Exchange): Promise<Answer> {
    const { bytes, contentType } = exchange.body as RawBody;
    const { messageId, priority, group, delayMs, expiresInMs } = exchange.query as {
      messageId?: string;
      priority?: number;
      group?: string;
      delayMs?: number;
      expiresInMs?: number;
    };
    const what = ['raw', contentType ?? null, priority ?? null, delayMs ?? null, bytes];
    if (expiresInMs !== undefined) what.push(expiresInMs);
    if (group !== undefined) what.push('group', group);
    const [pushed] = await this.#push(exchange, [
      {
        body: this.#bodyOf('The body', bytes),
        contentType,
        priority,
        group,
        delayMs,
        expiresInMs,
        messageId,
        attempt: attemptsOf(exchange, () => what)(),
      },
    ]);
    const body: Schemas['PushedMessage'] = showPushed(pushed as Pushed);
    return { status: 201, body };
  }

  async peek(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const { limit = 100, pageToken, delayed } = exchange.query as Peeked;
    const start = delayed === true ? BEFORE_DELAYED : undefined;
    const after = pageToken === undefined ? start : cursorOf(pageToken);
    const queue = { namespace, name };
    const page = await peekMessages(this.#context, this.#queues, queue, { limit, after }, exchange.deadline);
    if (page === undefined) throw noSuchQueue(name, namespace);
    const body: Schemas['PeekedMessageList'] = {
      items: page.items.map(showPeeked),
      ...(page.next === undefined ? {} : { nextPageToken: pageTokenOfCursor(page.next) }),
    };
    return { status: 200, body };
  }

  async pop(exchange: Exchange): Promise<Answer> {
    const { items } = await consume(this.#context, this.#queues, {
      namespace: await namespaceOf(exchange, this.#context.leases, 'use'),
      name: nameOf(exchange),
      claim: undefined,
      ...demandOf(exchange),
    });
    if (items.length === 0) return nothingFound(exchange);
    const body: Schemas['PoppedMessages'] = { items: items.map(showMessage) };
    return { status: 200, body };
  }

  async claim(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['ClaimMessagesRequest'];
    const request = { name: nameOf(exchange), ...demandOf(exchange) };
    const terms = { requestId: requestIdOf(exchange, body), claimMs: body.claimMs };
    if (body.lease === undefined) {
      const lease = await leaseOf(exchange, this.#context.leases);
      const { namespace } = lease;
      const claim = { lease, ...terms };
      return answerClaim(exchange, await consume(this.#context, this.#queues, { ...request, namespace, claim }));
    }
    const newLease = newLeaseOf(exchange, body, body.lease);
    const { namespace } = newLease;
    const first = { ...request, namespace, claim: terms };
    const { result, lease, leaseToken } = await claimWithLease(this.#context, this.#queues, newLease, first);
    const { leaseId, ttlMs } = lease;
    return answerClaim(exchange, result, { leaseId, ttlMs, expiresAt: instant(result.expiresAt), leaseToken });
  }

  async acknowledge(exchange: Exchange): Promise<Answer> {
    const { claimIds } = exchange.body as Schemas['AcknowledgeRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const queue = await this.#queues.expect(lease.namespace, nameOf(exchange), exchange.deadline);
    const distinct = [...new Set(claimIds)];
    const results = await acknowledge(queue, lease, distinct, exchange);
    return this.#settled(exchange, distinct, results);
  }

  async giveBack(exchange: Exchange): Promise<Answer> {
    const { claimIds, delayMs = 0, reason, deadLetter = false } = exchange.body as Schemas['NackRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const queue = await this.#queues.expect(lease.namespace, nameOf(exchange), exchange.deadline);
    if (deadLetter) checkDeadLetters(queue, delayMs);
    checkGivenBack(queue.name, queue.config.order, delayMs);
    const distinct = [...new Set(claimIds)];
    const results = await giveBack(queue, lease, distinct, { delayMs, reason, deadLetter }, exchange);
    return this.#settled(exchange, distinct, results);
  }

  async prolong(exchange: Exchange): Promise<Answer> {
    const { claimIds, claimMs } = exchange.body as Schemas['ExtendRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const queue = await this.#queues.expect(lease.namespace, nameOf(exchange), exchange.deadline);
    checkClaimMs(queue, claimMs);
    const distinct = [...new Set(claimIds)];
    const results = await prolong(queue, lease, distinct, claimMs, exchange);
    return this.#settled(
      exchange,
      distinct,
      results.map(({ result }) => result),
      results.map(({ until }) => until),
    );
  }

  async #push(exchange: Exchange, messages: readonly NewMessage[]): Promise<Pushed[]> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
    return pushMessages(this.#queues, namespace, nameOf(exchange), messages, exchange);
  }

  #bodyOf(field: string, body: Buffer): Buffer {
    checkBody(field, body, this.#maxMessageBytes);
    return body;
  }

  /**
   * @param distinct the claims that were settled; if the request names a claim again, that gets the same answer again
   */
  #settled(
    exchange: Exchange,
    distinct: readonly string[],
    results: readonly Settled[],
    untils: readonly (number | undefined)[] = [],
  ): Answer {
    const { claimIds } = exchange.body as Schemas['AcknowledgeRequest'];
    const places = new Map(distinct.map((claimId, i) => [claimId, i]));
    /** The same for each: making an error costs more than settling a claim. */
    let notHolder: object | undefined;
    const items = claimIds.map((claimId): Schemas['SettledClaims']['items'][number] => {
      const i = places.get(claimId) as number;
      const result = results[i];
      const until = untils[i];
      if (result === 'done')
        return { claimId, status: 200, ...(until === undefined ? {} : { claimedUntil: instant(until) }) };
      if (result === 'gone') return { claimId, status: 200, gone: true };
      notHolder ??= problemOf(
        new NotHolderError('the claim of a message of queue', nameOf(exchange), 'claimId'),
        exchange.traceId,
      ).body;
      return { ...notHolder, claimId } as unknown as Schemas['Problem'];
    });
    return { status: 200, body: { items } satisfies Schemas['SettledClaims'] };
  }
}

/** @throws InvalidError where there are dead letters and no queue for them, or the other way round */
function checkDeadLetterQueue(
  name: string,
  { maxDeliveries, deadLetterExpired = false, deadLetterQueue }: Schemas['QueueConfig'],
): void {
  if (deadLetterQueue === name)
    throw new InvalidError('deadLetterQueue', deadLetterQueue, 'another queue than the one that it is for');
  const hasDeadLetters = maxDeliveries !== undefined || deadLetterExpired;
  if (hasDeadLetters === (deadLetterQueue !== undefined)) return;
  throw new InvalidError(
    hasDeadLetters ? 'deadLetterQueue' : 'maxDeliveries',
    undefined,
    'given together with the other one: a message that was delivered maxDeliveries times, or that has expired if deadLetterExpired is true, goes to deadLetterQueue',
  );
}

/** @throws InvalidError where the messages of groups would expire: see `checkOrder` */
function checkExpiry({ order, messageTtlMs }: Schemas['QueueConfig']): void {
  if (order !== 'grouped' || messageTtlMs === undefined) return;
  throw new InvalidError('messageTtlMs', messageTtlMs, 'absent with order "grouped", whose messages do not expire');
}

/** @throws PosternError `invalid` where messages cannot be made dead letters */
function checkDeadLetters({ name, config }: Queue, delayMs: number): void {
  if (delayMs > 0) throw new InvalidError('delayMs', delayMs, 'left out with deadLetter: a dead letter does not wait');
  if (config.deadLetterQueue === undefined)
    throw new InvalidError('deadLetter', true, `left out, because queue "${name}" has no deadLetterQueue`);
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}

/**
 * A push with an idempotency key numbers its messages with marks of their own: the first of them tells whether it is
 * the same request. A `messageId` cannot contain a slash, so these never equal one. The queue follows from where the
 * marks lie.
 */
function attemptsOf(
  { idempotencyKey, principal }: Exchange,
  what: () => Parameters<typeof attemptOf>[2],
): () => Attempt | undefined {
  if (idempotencyKey === undefined) return () => undefined;
  const { id, fingerprint } = attemptOf(['push', principal.id], idempotencyKey, what());
  let count = 0;
  return () => ({ id: `${id}/${count++}`, fingerprint });
}

/** @param granted of a lease that was made in the same request */
function answerClaim(
  exchange: Exchange,
  { items, undelivered }: Consumed,
  granted: Omit<Schemas['ClaimedMessages'], 'items'> = {},
): Answer {
  if (items.length === 0) return nothingFound(exchange);
  const body: Schemas['ClaimedMessages'] = { items: items.map(showClaimed), ...granted };
  return { status: 200, body, undelivered };
}

function noSuchQueue(name: string, namespace: string): PosternError {
  return new PosternError('not-found', `There is no queue "${name}" in namespace "${namespace}".`);
}
