/** `/v1/queues`: what operators do to queues, in the words of the contract. */
import { InvalidError, PosternError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import { restoreMessages } from '../../recipes/queue/push/restore.js';
import { purge, redrive } from '../../recipes/queue/admin/empty.js';
import { deleteQueue, pauseQueue } from '../../recipes/queue/admin/manage.js';
import { findMessage, removeMessage, type Search, type Wanted } from '../../recipes/queue/admin/one-message.js';
import type { PeekedMessage } from '../../recipes/queue/admin/peek.js';
import type { Queue } from '../../recipes/queue/queue.js';
import type { Queues } from '../../recipes/queue/queues.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { checkBody, cursorOf, pageTokenOfCursor, restoredOf, showPeeked, showPushed } from './queue-words.js';
import type { Building } from './shared/serving.js';
import { namespaceOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function queueAdminRoutes({ context, recipes, config }: Building): Routes {
  const routes = new QueueAdminRoutes(context, recipes.queue.queues, config.maxMessageBytes);
  return {
    deleteQueue: (exchange) => routes.remove(exchange),
    pauseQueue: (exchange) => routes.pause(exchange, true),
    resumeQueue: (exchange) => routes.pause(exchange, false),
    showMessage: (exchange) => routes.showMessage(exchange),
    removeMessage: (exchange) => routes.removeMessage(exchange),
    purgeQueue: (exchange) => routes.purge(exchange),
    redriveQueue: (exchange) => routes.redrive(exchange),
    restoreMessages: (exchange) => routes.restore(exchange),
  };
}

class QueueAdminRoutes {
  readonly #context: Coordination;
  readonly #queues: Queues;
  readonly #maxMessageBytes: number;

  /** @param maxMessageBytes the largest body of one message */
  constructor(context: Coordination, queues: Queues, maxMessageBytes: number) {
    this.#context = context;
    this.#queues = queues;
    this.#maxMessageBytes = maxMessageBytes;
  }

  async remove(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'admin');
    const { force } = exchange.query as { force?: boolean };
    const name = nameOf(exchange);
    await deleteQueue(this.#context, this.#queues, { namespace, name }, force ?? false, exchange);
    return { status: 204 };
  }

  async pause(exchange: Exchange, paused: boolean): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'admin');
    const name = nameOf(exchange);
    const isThere = await pauseQueue(this.#context, this.#queues, { namespace, name }, paused, exchange);
    if (!isThere) throw noSuchQueue(name, namespace);
    return { status: 204 };
  }

  async showMessage(exchange: Exchange): Promise<Answer> {
    const wanted = wantedOf(exchange, await namespaceOf(exchange, this.#context.leases));
    const message = found(wanted, await findMessage(this.#context, this.#queues, wanted, exchange.deadline));
    return { status: 200, body: showPeeked(message) };
  }

  async removeMessage(exchange: Exchange): Promise<Answer> {
    const wanted = wantedOf(exchange, await namespaceOf(exchange, this.#context.leases, 'admin'));
    found(wanted, await removeMessage(this.#context, this.#queues, wanted, exchange));
    return { status: 204 };
  }

  async purge(exchange: Exchange): Promise<Answer> {
    const queue = await this.#expect(exchange);
    const { count, claimed, complete } = await purge(queue, exchange);
    const body: Schemas['PurgedQueue'] = { purged: count, claimed, complete };
    return { status: 200, body };
  }

  async redrive(exchange: Exchange): Promise<Answer> {
    const { to } = exchange.body as Schemas['RedriveRequest'];
    const namespace = await namespaceOf(exchange, this.#context.leases, 'admin');
    exchange.authorize(['use', 'admin'], namespace, { name: to });
    const queue = await this.#expect(exchange);
    if (to === queue.name) throw new InvalidError('to', to, 'another queue than the one that is redriven');
    // A typing error would create a queue that nobody reads.
    await this.#queues.expect(namespace, to, exchange.deadline);
    const { count, claimed, complete } = await redrive(queue, to, exchange);
    const body: Schemas['RedrivenQueue'] = { redriven: count, claimed, complete };
    return { status: 200, body };
  }

  async restore(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'admin');
    const { messages } = exchange.body as Schemas['RestoreMessagesRequest'];
    const restored = messages.map(restoredOf);
    for (const [i, { body }] of restored.entries()) checkBody(`messages[${i}].body`, body, this.#maxMessageBytes);
    const pushed = await restoreMessages(this.#queues, { namespace, name: nameOf(exchange) }, restored, exchange);
    const body: Schemas['PushedMessages'] = { items: pushed.map(showPushed) };
    return { status: 200, body };
  }

  async #expect(exchange: Exchange): Promise<Queue> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'admin');
    return this.#queues.expect(namespace, nameOf(exchange), exchange.deadline);
  }
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}

function wantedOf(exchange: Exchange, namespace: string): Wanted {
  const { pageToken } = exchange.query as { pageToken?: string };
  const after = pageToken === undefined ? undefined : cursorOf(pageToken);
  return { namespace, name: nameOf(exchange), id: exchange.params['id'] as string, after };
}

/** @throws PosternError `not-found`, which says whether that is sure */
function found({ namespace, name, id, after }: Wanted, search: Search | undefined): PeekedMessage {
  if (search === undefined) throw noSuchQueue(name, namespace);
  const { message, next } = search;
  if (message !== undefined) return message;
  const part = after === undefined ? '' : ', from where the search began';
  if (next === undefined) throw new PosternError('not-found', `There is no message "${id}" in queue "${name}"${part}.`);
  throw new PosternError(
    'not-found',
    `Message "${id}" is not among those of queue "${name}" that were looked at; there are more: repeat the request with nextPageToken as pageToken.`,
    { members: { nextPageToken: pageTokenOfCursor(next) } },
  );
}

function noSuchQueue(name: string, namespace: string): PosternError {
  return new PosternError('not-found', `There is no queue "${name}" in namespace "${namespace}".`);
}
