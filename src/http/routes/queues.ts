/** `/v1/queues`: the requests about queues and their messages, in the words of the contract. */
import { InvalidError, NotHolderError, PosternError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import { configureQueue, deleteQueue } from '../../recipes/queue/manage.js';
import { checkClaimMs, consume } from '../../recipes/queue/consume.js';
import { purge, redrive } from '../../recipes/queue/empty.js';
import { pushMessages, type NewMessage, type Pushed } from '../../recipes/queue/push.js';
import type { Queue } from '../../recipes/queue/queue.js';
import { DEDUP_WINDOW_MS, type QueueConfig } from '../../recipes/queue/queue-config.js';
import type { QueueObservers } from '../../recipes/queue/queue-observers.js';
import type { Queues } from '../../recipes/queue/queues.js';
import { acknowledge, giveBack, prolong, type Settled } from '../../recipes/queue/settle.js';
import { describeQueue, listQueues, peekMessages } from '../../recipes/queue/view.js';
import { endReason, instant } from '../../time.js';
import type { RawBody } from '../body.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes, Scope } from '../exchange.js';
import { problemOf } from '../problem.js';
import { cursorOf, pageTokenOfCursor, showClaimed, showMessage, showPeeked, showQueue } from './queue-words.js';
import { leaseOf, namespaceOf, namespaceOfReader, pageOfAllowed, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export interface QueueRoutesOptions {
  context: Coordination;
  queues: Queues;
  observers: QueueObservers;
  /** The largest body of one message. */
  maxMessageBytes: number;
}

export function queueRoutes(options: QueueRoutesOptions): Routes {
  const routes = new QueueRoutes(options);
  return {
    listQueues: (exchange) => routes.list(exchange),
    showQueue: (exchange) => (exchange.wantsEvents ? routes.watch(exchange) : routes.show(exchange)),
    watchQueue: (exchange) => routes.watch(exchange),
    configureQueue: (exchange) => routes.configure(exchange),
    deleteQueue: (exchange) => routes.remove(exchange),
    pushMessages: (exchange) => routes.push(exchange),
    pushRawMessage: (exchange) => routes.pushRaw(exchange),
    peekMessages: (exchange) => routes.peek(exchange),
    popMessages: (exchange) => routes.pop(exchange),
    claimMessages: (exchange) => routes.claim(exchange),
    acknowledgeMessages: (exchange) => routes.acknowledge(exchange),
    releaseMessages: (exchange) => routes.giveBack(exchange),
    extendClaims: (exchange) => routes.prolong(exchange),
    purgeQueue: (exchange) => routes.purge(exchange),
    redriveQueue: (exchange) => routes.redrive(exchange),
  };
}

class QueueRoutes {
  readonly #context: Coordination;
  readonly #queues: Queues;
  readonly #observers: QueueObservers;
  readonly #maxMessageBytes: number;

  constructor({ context, queues, observers, maxMessageBytes }: QueueRoutesOptions) {
    this.#context = context;
    this.#queues = queues;
    this.#observers = observers;
    this.#maxMessageBytes = maxMessageBytes;
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { items, next } = await listQueues(
      this.#context,
      this.#queues,
      namespace,
      pageOfAllowed(exchange, namespace),
      exchange.deadline,
    );
    const body: Schemas['QueueList'] = { items, ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async show(exchange: Exchange): Promise<Answer> {
    return { status: 200, body: await this.#describe(exchange) };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    await this.#queues.expect(namespace, name, exchange.deadline);
    const { maxMs } = exchange.query as { maxMs?: number };
    return {
      maxMs,
      events: (sink) =>
        new Promise((resolve) => {
          const unsubscribe = this.#observers.subscribe(namespace, name, ({ etag, view }) => {
            if (view !== undefined) sink.send({ event: 'state', id: etag, data: showQueue(view) });
          });
          const end = (): void => {
            unsubscribe();
            resolve();
          };
          if (sink.signal.aborted) end();
          else sink.signal.addEventListener('abort', end, { once: true });
        }),
    };
  }

  async configure(exchange: Exchange): Promise<Answer> {
    const namespace = namespaceOf(exchange, 'use');
    const name = nameOf(exchange);
    const body = exchange.body as Schemas['QueueConfig'];
    const { maxDeliveries, deadLetterQueue } = body;
    if ((maxDeliveries === undefined) !== (deadLetterQueue === undefined))
      throw new InvalidError(
        maxDeliveries === undefined ? 'maxDeliveries' : 'deadLetterQueue',
        undefined,
        'given together with the other one: a message that was delivered maxDeliveries times goes to deadLetterQueue',
      );
    if (deadLetterQueue === name)
      throw new InvalidError('deadLetterQueue', deadLetterQueue, 'another queue than the one that it is for');
    if (deadLetterQueue !== undefined) exchange.authorize('use', namespace, { name: deadLetterQueue });
    const config: QueueConfig = { ...body, dedupWindowMs: body.dedupWindowMs ?? DEDUP_WINDOW_MS };
    const made = await configureQueue(this.#context, this.#queues, namespace, name, config, exchange.deadline);
    return { status: made ? 201 : 200, body: await this.#describe(exchange) };
  }

  async remove(exchange: Exchange): Promise<Answer> {
    const namespace = namespaceOf(exchange, 'admin');
    const { force } = exchange.query as { force?: boolean };
    await deleteQueue(this.#context, this.#queues, namespace, nameOf(exchange), force ?? false, exchange.deadline);
    return { status: 204 };
  }

  async push(exchange: Exchange): Promise<Answer> {
    const { messages } = exchange.body as Schemas['PushMessagesRequest'];
    const pushed = await this.#push(
      exchange,
      messages.map(({ body, priority, delayMs, messageId, attributes }, index) => ({
        body: this.#bodyOf(`messages[${index}].body`, Buffer.from(JSON.stringify(body))),
        priority,
        delayMs,
        messageId: messageId ?? derivedId(exchange, index),
        attributes,
      })),
    );
    const body: Schemas['PushedMessages'] = { items: pushed.map(showPushed) };
    return { status: 201, body };
  }

  async pushRaw(exchange: Exchange): Promise<Answer> {
    const { bytes, contentType } = exchange.body as RawBody;
    const { messageId, priority, delayMs } = exchange.query as {
      messageId?: string;
      priority?: number;
      delayMs?: number;
    };
    const [pushed] = await this.#push(exchange, [
      {
        body: this.#bodyOf('The body', bytes),
        contentType,
        priority,
        delayMs,
        messageId: messageId ?? derivedId(exchange, 0),
      },
    ]);
    const body: Schemas['PushedMessage'] = showPushed(pushed as Pushed);
    return { status: 201, body };
  }

  async peek(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const { limit = 100, pageToken } = exchange.query as { limit?: number; pageToken?: string };
    const after = pageToken === undefined ? undefined : cursorOf(pageToken);
    const page = await peekMessages(this.#context, this.#queues, namespace, name, { limit, after }, exchange.deadline);
    if (page === undefined) throw noSuchQueue(name, namespace);
    const body: Schemas['PeekedMessageList'] = {
      items: page.items.map(showPeeked),
      ...(page.next === undefined ? {} : { nextPageToken: pageTokenOfCursor(page.next) }),
    };
    return { status: 200, body };
  }

  async pop(exchange: Exchange): Promise<Answer> {
    const { max = 1, waitMs = 0 } = exchange.body as Schemas['PopMessagesRequest'];
    const { items } = await consume(this.#context, this.#queues, {
      namespace: namespaceOf(exchange, 'use'),
      name: nameOf(exchange),
      max,
      claim: undefined,
      waitMs,
      receivedAt: exchange.receivedAt,
      hardDeadline: exchange.deadline + waitMs,
      signal: exchange.signal,
    });
    if (items.length === 0) return nothing(exchange);
    const body: Schemas['PoppedMessages'] = { items: items.map(showMessage) };
    return { status: 200, body };
  }

  async claim(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['ClaimMessagesRequest'];
    const { max = 1, waitMs = 0, claimMs } = body;
    const lease = await leaseOf(exchange, this.#context.leases);
    const { items, undelivered } = await consume(this.#context, this.#queues, {
      namespace: lease.namespace,
      name: nameOf(exchange),
      max,
      claim: { lease, requestId: requestIdOf(exchange, body), claimMs },
      waitMs,
      receivedAt: exchange.receivedAt,
      hardDeadline: exchange.deadline + waitMs,
      signal: exchange.signal,
    });
    if (items.length === 0) return nothing(exchange);
    const answer: Schemas['ClaimedMessages'] = { items: items.map(showClaimed) };
    return { status: 200, body: answer, undelivered };
  }

  async acknowledge(exchange: Exchange): Promise<Answer> {
    const { claimIds } = exchange.body as Schemas['AcknowledgeRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const queue = await this.#queues.expect(lease.namespace, nameOf(exchange), exchange.deadline);
    const results = await acknowledge(queue, lease, claimIds, exchange.deadline);
    return this.#settled(exchange, claimIds, results);
  }

  async giveBack(exchange: Exchange): Promise<Answer> {
    const { claimIds, delayMs = 0, reason } = exchange.body as Schemas['NackRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const queue = await this.#queues.expect(lease.namespace, nameOf(exchange), exchange.deadline);
    const results = await giveBack(queue, lease, claimIds, { delayMs, reason }, exchange.deadline);
    return this.#settled(exchange, claimIds, results);
  }

  async prolong(exchange: Exchange): Promise<Answer> {
    const { claimIds, claimMs } = exchange.body as Schemas['ExtendRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const queue = await this.#queues.expect(lease.namespace, nameOf(exchange), exchange.deadline);
    checkClaimMs(queue, claimMs);
    const results = await prolong(queue, lease, claimIds, claimMs, exchange.deadline);
    return this.#settled(
      exchange,
      claimIds,
      results.map(({ result }) => result),
      results.map(({ until }) => until),
    );
  }

  async purge(exchange: Exchange): Promise<Answer> {
    const queue = await this.#expect(exchange, 'admin');
    const { count, claimed, complete } = await purge(queue, exchange.deadline);
    const body: Schemas['PurgedQueue'] = { purged: count, claimed, complete };
    return { status: 200, body };
  }

  async redrive(exchange: Exchange): Promise<Answer> {
    const { to } = exchange.body as Schemas['RedriveRequest'];
    exchange.authorize(['use', 'admin'], namespaceOf(exchange, 'admin'), { name: to });
    const queue = await this.#expect(exchange, 'admin');
    if (to === queue.name) throw new InvalidError('to', to, 'another queue than the one that is redriven');
    const { count, claimed, complete } = await redrive(queue, to, exchange.deadline);
    const body: Schemas['RedrivenQueue'] = { redriven: count, claimed, complete };
    return { status: 200, body };
  }

  async #describe(exchange: Exchange): Promise<Schemas['Queue']> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const view = await describeQueue(this.#context, this.#queues, namespace, name, exchange.deadline);
    if (view === undefined) throw noSuchQueue(name, namespace);
    return showQueue(view);
  }

  #expect(exchange: Exchange, scope: Scope): Promise<Queue> {
    return this.#queues.expect(namespaceOf(exchange, scope), nameOf(exchange), exchange.deadline);
  }

  #push(exchange: Exchange, messages: readonly NewMessage[]): Promise<Pushed[]> {
    return pushMessages(this.#queues, namespaceOf(exchange, 'use'), nameOf(exchange), messages, exchange.deadline);
  }

  #bodyOf(field: string, body: Buffer): Buffer {
    const maxBytes = this.#maxMessageBytes;
    if (body.length <= maxBytes) return body;
    throw new PosternError(
      'too-large',
      `${field} has ${body.length} bytes; a message has at most ${maxBytes}. Nothing was pushed.`,
      { members: { maxBytes, bytes: body.length } },
    );
  }

  #settled(
    exchange: Exchange,
    claimIds: readonly string[],
    results: readonly Settled[],
    untils: readonly (number | undefined)[] = [],
  ): Answer {
    const items = claimIds.map((claimId, i): Schemas['SettledClaims']['items'][number] => {
      const result = results[i];
      const until = untils[i];
      if (result === 'done')
        return { claimId, status: 200, ...(until === undefined ? {} : { claimedUntil: instant(until) }) };
      if (result === 'gone') return { claimId, status: 200, gone: true };
      const problem = problemOf(
        new NotHolderError('the claim of a message of queue', nameOf(exchange)),
        exchange.traceId,
      );
      return { ...problem.body, claimId } as unknown as Schemas['Problem'];
    });
    return { status: 200, body: { items } satisfies Schemas['SettledClaims'] };
  }
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}

/** A request that can be repeated as a whole makes its messages so. Names of messages cannot have a slash: it is none of theirs. */
function derivedId({ idempotencyKey }: Exchange, index: number): string | undefined {
  return idempotencyKey === undefined ? undefined : `${idempotencyKey}/${index}`;
}

function showPushed({ id, duplicate }: Pushed): Schemas['PushedMessage'] {
  return { id, status: duplicate ? 200 : 201 };
}

function nothing(exchange: Exchange): Answer {
  if (endReason(exchange.signal) === 'draining')
    throw new PosternError('draining', 'This replica is shutting down; another one serves.');
  return { status: 204 };
}

function noSuchQueue(name: string, namespace: string): PosternError {
  return new PosternError('not-found', `There is no queue "${name}" in namespace "${namespace}".`);
}
