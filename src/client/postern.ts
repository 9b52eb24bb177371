/**
 * The client: one object for a program, with one lease that is taken when it is first needed and kept alive by
 * heartbeats until `close`.
 *
 *   const postern = new Postern({ urls: ['http://a:7070', 'http://b:7070'] });
 *   await postern.lock('backup').using({ waitMs: 300_000 }, async ({ signal, fencingToken }) => { … });
 *   await postern.close();
 */
import { Barrier } from './state/barrier.js';
import { Config } from './state/config.js';
import type { Context } from './context.js';
import type { Answer, Operation, RequestParts } from './contract.js';
import { Counter } from './state/counter.js';
import { DoubleBarrier } from './line/double-barrier.js';
import { Election } from './line/election.js';
import { Gateways, type CallOptions } from './gateways/gateways.js';
import { Group } from './state/group.js';
import { LeaseKeeper } from './lease/keeper.js';
import { Lock } from './line/lock.js';
import { ManyLocks } from './line/many-locks.js';
import { settingsOf, type PosternOptions } from './options.js';
import { ManyQueues, Queue } from './queue/queue.js';
import { ReadWriteLock } from './line/read-write-lock.js';
import { Rounds } from './gateways/rounds.js';
import { Run } from './run/run.js';
import { Pool } from './line/pool.js';
import { Semaphore, type SemaphoreOptions } from './line/semaphore.js';
import { Using } from './line/using.js';

export interface RequestOptions {
  /** Whether the request is made for the lease of this client, which is then taken if there is none. */
  lease?: boolean;
  /** For how long it is repeated if no gateway serves it, in milliseconds, beyond the time for which it waits. */
  patienceMs?: number;
  signal?: AbortSignal;
}

/** Parts that the contract requires have to be given; if it requires none they may be left out. */
type RequestArguments<O extends Operation> =
  Record<string, never> extends RequestParts<O>
    ? [parts?: RequestParts<O> & RequestOptions]
    : [parts: RequestParts<O> & RequestOptions];

export class Postern implements AsyncDisposable {
  readonly #context: Context;
  readonly #using = new Using();

  /** Nothing is sent before something is asked for. @throws TypeError for options that cannot be used */
  constructor(options: PosternOptions) {
    const settings = settingsOf(options);
    const gateways = new Gateways(settings);
    const keeper = new LeaseKeeper(gateways, settings);
    this.#context = { settings, gateways, keeper, rounds: new Rounds(settings.ttlMs) };
  }

  lock(name: string): Lock {
    return new Lock(this.#context, this.#using, name);
  }

  /** All of them together, or none. */
  locks(names: readonly string[]): ManyLocks {
    return new ManyLocks(this.#context, names);
  }

  /** Readers share its `read`, a writer excludes everybody with its `write`. */
  rwlock(name: string): ReadWriteLock {
    return new ReadWriteLock(this.#context, this.#using, name);
  }

  /** Members of which each holder is told which it has. */
  pool(name: string): Pool {
    return new Pool(this.#context, name);
  }

  semaphore(name: string, options: SemaphoreOptions = {}): Semaphore {
    return new Semaphore(this.#context, this.#using, name, options);
  }

  election(name: string): Election {
    return new Election(this.#context, name);
  }

  queue(name: string): Queue {
    return new Queue(this.#context, name);
  }

  /** For workers that take from the first of them that has something. */
  queues(names: readonly string[]): ManyQueues {
    return new ManyQueues(this.#context, names);
  }

  group(name: string): Group {
    return new Group(this.#context, name);
  }

  get config(): Config {
    return new Config(this.#context);
  }

  /** Of each of its occurrences somebody does the work once. */
  run(name: string): Run {
    return new Run(this.#context, name);
  }

  counter(name: string): Counter {
    return new Counter(this.#context, name);
  }

  barrier(name: string): Barrier {
    return new Barrier(this.#context, name);
  }

  doubleBarrier(name: string): DoubleBarrier {
    return new DoubleBarrier(this.#context, name);
  }

  /**
   * Any operation of the contract, by its method and path, with the same repetitions as everything else here:
   *
   *   const { body } = await postern.request('GET /v1/locks/{name}', { path: { name: 'backup' } });
   *
   * @returns the answer; its `status` tells the answers of the operation apart
   * @throws PosternError if it is a problem, or if no gateway answers
   */
  async request<O extends Operation>(operation: O, ...[parts]: RequestArguments<O>): Promise<Answer<O>> {
    const { lease: underLease = false, patienceMs, signal, ...rest } = (parts ?? {}) as RequestOptions;
    const { keeper, gateways } = this.#context;
    keeper.closed.throwIfAborted();
    const lease = underLease ? await keeper.lease() : undefined;
    const options: CallOptions = {
      ...(lease && { leaseToken: lease.token }),
      ...(patienceMs !== undefined && { patienceMs }),
      signals: [signal, keeper.closed],
    };
    try {
      return await gateways.call(operation, rest as RequestParts<O>, options);
    } catch (error) {
      lease?.endedBy(error);
      throw error;
    }
  }

  /** Everything that is held is lost (`closed`), and the lease ends. The client cannot be used any more. */
  async close(): Promise<void> {
    await this.#context.keeper.close();
    this.#context.gateways.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
