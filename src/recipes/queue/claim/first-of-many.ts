/**
 * Claiming from the first of several queues that has messages (protocol C98).
 *
 * 1. _Look_ at the queues in the given order, without waiting, and claim from the first that has something, as a claim
 *    from that queue alone does. Each look sees what was pushed before the request.
 * 2. _Wait_, if all were empty, with one demand (`demand.ts`) that stands in the line of each queue, and costs
 *    ZooKeeper nothing. The first queue that has something takes it for the demand, which the others pass over
 *    meanwhile; so no claim is made twice for one request, and a message wakes only whom it is for. If that comes to
 *    nothing, all of them may serve it again. A queue that does not exist yet is watched for, and joins.
 *
 * If one of the queues is deleted meanwhile, both begin anew with what its name stands for then.
 *
 * All messages of one answer are from one queue. Only a repeated request may find claims in several, when two that
 * waited at the same time were served by different ones.
 *
 * Crash points: those of a claim from one queue. Before the transaction nothing is claimed anywhere; after it the
 * claims end with the lease, or are found in whichever queue they are when the client repeats its `requestId`.
 */
import { setMaxListeners } from 'node:events';
import { callerUntil, type Caller } from '../../../time.js';
import type { Coordination } from '../../coordination.js';
import { QueueGoneError } from '../gone.js';
import type { Queue } from '../queue.js';
import type { Queues } from '../queues.js';
import {
  appeared,
  checkClaimMs,
  consumed,
  NOTHING,
  roomFor,
  whileAlive,
  type Consumed,
  type ConsumeRequest,
} from './consume.js';
import { Demand, type ClaimTerms, type Delivered } from './demand.js';
import { findClaims } from './own-claims.js';

export interface ClaimFromFirstRequest extends Omit<ConsumeRequest, 'name' | 'claim'> {
  /** The queues, those first that go before the others. */
  names: readonly string[];
  claim: ClaimTerms;
}

/** @throws InvalidError, LeaseExpiredError, NoReplyError */
export async function claimFromFirst(
  context: Coordination,
  queues: Queues,
  request: ClaimFromFirstRequest,
): Promise<Consumed> {
  const known = request.claim.requestId === '' ? [] : await findInAny(queues, request);
  // An earlier answer may have told the client of them: they stay, whatever becomes of this one.
  if (known.length > 0) return { items: known, undelivered: () => undefined };
  return whileAlive(context, request, (caller) => new FirstOfMany(context, queues, { ...request, caller }).take());
}

async function findInAny(
  queues: Queues,
  { namespace, names, claim: { lease, requestId }, hardDeadline, caller, reserve }: ClaimFromFirstRequest,
): Promise<Delivered[]> {
  const bytesOf = new Map<string, number>();
  const find = async (name: string): Promise<Delivered[]> => {
    const queue = await queues.find(namespace, name, hardDeadline);
    if (queue === undefined) return [];
    return findClaims(queue, lease, requestId, {
      deadline: hardDeadline,
      requester: caller,
      reserve: (bytes) => {
        bytesOf.set(name, bytes);
        return reserve([...bytesOf.values()].reduce((sum, each) => sum + each, 0)); // they are one answer
      },
    });
  };
  return (await Promise.all(names.map(find))).flat();
}

class FirstOfMany {
  readonly #context: Coordination;
  readonly #queues: Queues;
  readonly #request: ClaimFromFirstRequest;
  /** Those that there are, by name, in the given order. */
  #open = new Map<string, Queue>();

  constructor(context: Coordination, queues: Queues, request: ClaimFromFirstRequest) {
    this.#context = context;
    this.#queues = queues;
    this.#request = request;
  }

  async take(): Promise<Consumed> {
    const { namespace, names, max, claim, receivedAt, waitMs, hardDeadline } = this.#request;
    const { paths } = this.#queues.unmade(namespace, names[0] as string); // those of all are equally long
    const room = await roomFor(this.#context, paths, claim, max, hardDeadline);
    for (;;) {
      await this.#lookUp();
      try {
        const found = await this.#look(room);
        if (found.length > 0) return this.#consumed(found);
        if (performance.now() >= receivedAt + waitMs) return NOTHING;
        return this.#consumed(await this.#wait(room));
      } catch (error) {
        if (!(error instanceof QueueGoneError)) throw error;
        await this.#reopen();
      }
    }
  }

  /** @throws InvalidError before anything is taken, if one of them allows no such claim */
  async #lookUp(): Promise<void> {
    const { namespace, names, claim, hardDeadline } = this.#request;
    const found = await Promise.all(names.map((name) => this.#queues.find(namespace, name, hardDeadline)));
    this.#open = new Map(found.flatMap((queue) => (queue === undefined ? [] : [[queue.name, queue]])));
    for (const queue of this.#open.values()) checkClaimMs(queue, claim.claimMs);
  }

  async #look(max: number): Promise<Delivered[]> {
    const { receivedAt, waitMs, hardDeadline } = this.#request;
    // A look takes no longer than a request that does not wait.
    const requestMs = hardDeadline - waitMs - receivedAt;
    for (const queue of this.#open.values()) {
      const deadline = Math.min(hardDeadline, performance.now() + requestMs);
      const { claim, caller, reserve } = this.#request;
      const options = { max, claim, receivedAt, waitMs: 0, hardDeadline: deadline, caller, reserve };
      const items = await queue.dispatcher.take(options);
      if (items.length > 0) return items;
    }
    return [];
  }

  async #wait(max: number): Promise<Delivered[]> {
    const demand = new Demand({ ...this.#request, max }, this.#context.metrics);
    demand.waited = true; // each has been looked at
    const over = new AbortController();
    setMaxListeners(0, over.signal); // as many as there are names
    const caller = callerUntil(this.#request.caller, over.signal);
    for (const name of this.#request.names)
      this.#stand(demand, name, caller).catch((error: unknown) => demand.fail(error));
    try {
      return await demand.answered;
    } finally {
      over.abort();
    }
  }

  /** Puts it into the line of the queue, as soon as there is one of that name. */
  async #stand(demand: Demand, name: string, caller: Caller): Promise<void> {
    const { namespace, claim, hardDeadline } = this.#request;
    for (let queue = this.#open.get(name); !demand.over;) {
      if (queue !== undefined) {
        checkClaimMs(queue, claim.claimMs);
        this.#open.set(name, queue);
        return queue.dispatcher.serve(demand);
      }
      if (!(await appeared(this.#queues, { ...this.#request, name }, caller))) return;
      queue = await this.#queues.find(namespace, name, hardDeadline);
    }
  }

  /** One of them is not what it was: which, their names say. */
  async #reopen(): Promise<void> {
    const { hardDeadline } = this.#request;
    const open = [...this.#open.values()];
    const outdated = await Promise.all(open.map((queue) => this.#queues.isOutdated(queue, hardDeadline)));
    if (!outdated.includes(true)) await Promise.all(open.map((queue) => this.#queues.reopen(queue, hardDeadline)));
  }

  #consumed(items: Delivered[]): Consumed {
    const queue = this.#open.get(items[0]?.queue ?? '');
    return queue === undefined ? NOTHING : consumed(queue, this.#request.claim, items);
  }
}
