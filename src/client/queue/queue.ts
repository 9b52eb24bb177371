/** A queue: messages are pushed, and delivered at least once to those who claim them. */
import { randomUUID } from 'node:crypto';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import type { Job } from './job.js';
import { Worker, type JobsOptions } from './worker.js';

export interface PushOptions {
  /** A repeated push with the same one adds nothing; a random one unless given, which makes repeated requests safe. */
  messageId?: string;
  /** The lowest is delivered first; only for queues whose order is `priority`. */
  priority?: number;
  /** Delivered after what was pushed to it before; required for queues whose order is `grouped`, and only there. */
  group?: string;
  /** How long it is held back, in milliseconds. */
  delayMs?: number;
  /** After this time, in milliseconds, it is not delivered any more; more than `delayMs`. */
  expiresInMs?: number;
  /** Delivered with the message. */
  attributes?: Record<string, string>;
}

export interface Pushed {
  id: string;
  /** Whether there was one with this `messageId` before; then nothing was added. */
  duplicate: boolean;
}

export class Queue {
  readonly #context: Context;
  readonly #path: { name: string };

  constructor(
    context: Context,
    readonly name: string,
  ) {
    this.#context = context;
    this.#path = { name };
  }

  /** @param body any JSON value. @throws PosternError `queue-full`, for example */
  async push(body: unknown, options: PushOptions = {}): Promise<Pushed> {
    const [pushed] = await this.pushAll([{ body, ...options }]);
    return pushed as Pushed;
  }

  /** All of them, in this order, or none; at most 1 000. */
  async pushAll(messages: readonly ({ body: unknown } & PushOptions)[]): Promise<Pushed[]> {
    const body = { messages: messages.map((message) => ({ messageId: randomUUID(), ...message })) };
    const parts = { path: this.#path, body };
    const answer = await this.#context.gateways.call('POST /v1/queues/{name}/messages', parts);
    return answer.body.items.map(({ id, status }) => ({ id, duplicate: status === 200 }));
  }

  /** How deep it is and how it is set up, now. */
  async show(): Promise<Schemas['Queue']> {
    const { body } = await this.#context.gateways.call('GET /v1/queues/{name}', { path: this.#path });
    if (body === undefined) throw new TypeError('304 without If-None-Match');
    return body;
  }

  /**
   * Jobs, as long as the loop goes on; it waits while there are none, and while `concurrency` of them are open. When it
   * is left, jobs that it had not handed out are given back, and work that was given to `done` is waited for.
   */
  jobs(options: JobsOptions = {}): AsyncGenerator<Job, void> {
    return new Worker(this.#context, [this.name], options).jobs();
  }
}

/** Several queues whose messages the same workers work on. */
export class ManyQueues {
  readonly #context: Context;

  constructor(
    context: Context,
    readonly names: readonly string[],
  ) {
    this.#context = context;
  }

  /**
   * As the `jobs` of one queue. Each is from the first of the queues that has one, in the order of `names`, at most 16:
   * those behind it are left alone until then. The `name` of the job says which it is from.
   */
  jobs(options: JobsOptions = {}): AsyncGenerator<Job, void> {
    return new Worker(this.#context, this.names, options).jobs();
  }
}
