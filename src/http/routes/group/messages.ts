/** `/v1/groups/{name}/messages`: the requests about messages to a group, in the words of the contract. */
import { InvalidError } from '../../../errors.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { LogRef, Message } from '../../../recipes/group/messages/log.js';
import type { LogObservers } from '../../../recipes/group/messages/observer.js';
import type { Posts } from '../../../recipes/group/messages/post.js';
import { readMessages, type MessagePage, type ReadMessages } from '../../../recipes/group/messages/read.js';
import { attemptOf } from '../../../recipes/marks.js';
import { SharedReadings } from '../../../recipes/observing/shared-readings.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import { headerOf } from '../../frame/call.js';
import type { Answer, EventSink, EventStream, Exchange, Routes } from '../../frame/exchange.js';
import { checkEnded } from '../shared/long-poll.js';
import type { Building } from '../shared/serving.js';
import { namespaceOf, requestIdOf } from '../shared/subject.js';

type Schemas = components['schemas'];

const LIMIT = 100;
/** Of a stream, in one reading: a slow reader takes no more memory than what it has not taken yet, and these. */
const STREAM_LIMIT = 16;
/** For one reading of a stream, which has no deadline of its own. */
const READ_MS = 10_000;

export function groupMessageRoutes({ context, recipes: { group } }: Building): Routes {
  const routes = new GroupMessageRoutes(context, group.posts, group.logs);
  return {
    postMessage: (exchange) => routes.post(exchange),
    readMessages: (exchange) => (exchange.wantsEvents ? routes.watch(exchange) : routes.read(exchange)),
    watchMessages: (exchange) => routes.watch(exchange),
  };
}

class GroupMessageRoutes {
  readonly #context: Coordination;
  readonly #posts: Posts;
  readonly #logs: LogObservers;
  /** Of those who have the same cursor. */
  readonly #readings = new SharedReadings<MessagePage>('the reading of the messages');

  constructor(context: Coordination, posts: Posts, logs: LogObservers) {
    this.#context = context;
    this.#posts = posts;
    this.#logs = logs;
  }

  async post(exchange: Exchange): Promise<Answer> {
    const request = exchange.body as Schemas['PostMessageRequest'];
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
    const ref = this.#refOf(exchange, namespace);
    const requestId = requestIdOf(exchange, request);
    const by = exchange.principal.id;
    const who = ['group-message', namespace, ref.name, by];
    const { number, repeated } = await this.#posts.post({
      ref,
      by,
      body: request.body,
      request: requestId === '' ? undefined : attemptOf(who, requestId, [JSON.stringify(request.body)]),
      deadline: exchange.deadline,
      requester: exchange.requester,
    });
    const body: Schemas['PostedMessage'] = { name: ref.name, number };
    return { status: repeated ? 200 : 201, body };
  }

  /** Waits for the next message, if it is asked to, and reads what is behind the cursor then. */
  async read(exchange: Exchange): Promise<Answer> {
    const { after, limit = LIMIT, waitMs = 0 } = exchange.query as { after?: number; limit?: number; waitMs?: number };
    const ref = this.#refOf(exchange, await namespaceOf(exchange, this.#context.leases));
    const deadline = exchange.deadline + waitMs;
    let since = exchange.receivedAt;
    let cursor = after;
    if (waitMs > 0) {
      cursor ??= (await this.#read(ref, { after, limit, fresh: true }, since, deadline)).cursor;
      const known = cursor;
      // What is known here may be older than the cursor. If a look says so, it waits; a cursor that nobody was given is
      // refused by that look, and not at the end of the wait.
      let ahead = true;
      const isThere = ({ last }: { last: number }): boolean => {
        since = performance.now();
        return last > known || (ahead && last < known);
      };
      for (;;) {
        const found = await this.#logs.until(ref, isThere, exchange.receivedAt + waitMs, exchange.signal);
        if (found === undefined) break;
        const page = await this.#read(ref, { after: known, limit, fresh: false }, since, deadline);
        if (found.last > known || page.messages.length > 0) return answer(ref, page);
        ahead = false;
      }
      checkEnded(exchange);
      since = Math.min(exchange.receivedAt + waitMs, performance.now());
    }
    return answer(ref, await this.#read(ref, { after: cursor, limit, fresh: true }, since, deadline));
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const { after, maxMs } = exchange.query as { after?: number; maxMs?: number };
    const ref = this.#refOf(exchange, await namespaceOf(exchange, this.#context.leases));
    const begin = lastSeen(exchange) ?? after;
    const { receivedAt, deadline } = exchange;
    // No more than that: it would be kept as long as the stream.
    const { missed, cursor, messages } = await this.#read(
      ref,
      { after: begin, limit: 1, fresh: true },
      receivedAt,
      deadline,
    );
    const [oldest] = messages;
    const from = oldest === undefined ? cursor : oldest.number - 1;
    return {
      maxMs,
      events: (sink) => {
        sink.send({ event: 'state', id: String(begin ?? cursor), data: stateOf(ref, missed) });
        return this.#send(ref, from, sink);
      },
    };
  }

  /** Everything behind the cursor, and that comes, as fast as the reader takes it: it waits in ZooKeeper. */
  async #send(ref: LogRef, from: number, sink: EventSink): Promise<void> {
    const { signal } = sink;
    const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    let news = { last: -1, since: 0 };
    let wake = (): void => undefined;
    const unsubscribe = this.#logs.subscribe(ref, ({ last }) => {
      news = { last, since: performance.now() };
      wake();
    });
    try {
      for (let cursor = from; ;) {
        while (news.last <= cursor && !signal.aborted)
          await Promise.race([new Promise<void>((resolve) => (wake = resolve)), ended]);
        if (signal.aborted) return;
        cursor = await this.#sendNext(ref, cursor, news.since, sink);
        const caughtUp = sink.caughtUp();
        if (caughtUp !== undefined) await Promise.race([caughtUp, ended]);
      }
    } finally {
      unsubscribe();
    }
  }

  /**
   * The next messages, until the reader does not take more at once; what it has not been sent is read again.
   * @returns the cursor behind those that were sent
   */
  async #sendNext(ref: LogRef, after: number, since: number, sink: EventSink): Promise<number> {
    const asked = { after, limit: STREAM_LIMIT, fresh: false };
    const { missed, messages, cursor } = await this.#read(ref, asked, since, performance.now() + READ_MS);
    if (missed) sink.send({ event: 'state', id: String(after), data: stateOf(ref, missed) });
    for (const message of messages) {
      sink.send({ event: 'message', id: String(message.number), data: describe(message) });
      if (sink.caughtUp() !== undefined) return message.number;
    }
    return cursor;
  }

  /** @param since monotonic: the reading must not have begun before */
  #read(ref: LogRef, asked: ReadMessages, since: number, deadline: number): Promise<MessagePage> {
    const key = `${ref.path} ${asked.after} ${asked.limit} ${asked.fresh}`;
    return this.#readings.read(key, since, deadline, (until) => readMessages(this.#context, ref, asked, until));
  }

  #refOf({ params }: Exchange, namespace: string): LogRef {
    const name = params['name'] as string;
    return { namespace, name, path: this.#context.layout.groupMessages(namespace, name) };
  }
}

/** The message that the reader of an earlier stream has seen last. */
function lastSeen({ headers }: Exchange): number | undefined {
  const id = headerOf(headers['last-event-id']);
  if (id === undefined) return undefined;
  const number = Number(id);
  if (/^\d+$/.test(id) && Number.isSafeInteger(number)) return number;
  throw new InvalidError('Last-Event-ID', id, 'the id of an event of this stream, which is a number', { in: 'header' });
}

function answer({ name }: LogRef, { messages, cursor, missed }: MessagePage): Answer {
  const body: Schemas['GroupMessages'] = { name, messages: messages.map(describe), cursor, missed };
  return { status: 200, body };
}

function describe({ number, by, at, body }: Message): Schemas['GroupMessage'] {
  return { number, by, at: instant(at), body };
}

function stateOf({ name }: LogRef, missed: boolean): { name: string; missed: boolean } {
  return { name, missed };
}
