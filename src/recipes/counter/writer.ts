/**
 * Operations on counters, in batches: one transaction at a time per counter and replica. `counter.ts` walks through it.
 */
import { ClientGoneError, PosternError } from '../../errors.js';
import type { CounterOutcome } from '../../metrics/metrics.js';
import { fullJitter, pause, sharing, type Requester } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason, isTransient, mayBeApplied, NoReplyError } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import type { Coordination } from '../coordination.js';
import { checkSame, MARKS_MAX, newAttempt, withMark, type Attempt } from '../marks.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import {
  applyOperation,
  decodeCounter,
  decodeOperationMark,
  encodeCounter,
  encodeOperationMark,
  UNUSED_COUNTER,
  type Counter,
  type CounterNode,
  type CounterOperation,
  type OperationMark,
} from './counter.js';

export interface CounterRequest {
  namespace: string;
  name: string;
  operation: CounterOperation;
  /** From the requestId; without one, repetitions are not recognised. */
  attempt: Attempt | undefined;
  /** Monotonic. */
  deadline: number;
  requester: Requester;
}

/** Each may bring a mark of about 200 bytes: far below what a packet may have. */
const BATCH_MAX = 200;
const RETRY_BASE_MS = 2;
const RETRY_CAP_MS = 250;
const THE_CHANGE = 'the change of the counter';

/** One operation on its way: queued ──▶ sent (perhaps several times) ──▶ settled. */
class Pending {
  sent = false;
  settled = false;
  readonly #timer: NodeJS.Timeout;
  readonly done: Promise<number>;
  #resolve: (value: number) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(
    readonly request: CounterRequest,
    /** Where its mark lies, if it has one. */
    readonly markPath: string | undefined,
    readonly count: (outcome: CounterOutcome) => void,
  ) {
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = setTimeout(
      () => this.fail(new NoReplyError(THE_CHANGE, 'deadline', this.sent)),
      Math.max(0, request.deadline - performance.now()),
    );
  }

  succeed(value: number, outcome: CounterOutcome): void {
    this.#settle(outcome, () => this.#resolve(value));
  }

  fail(error: unknown): void {
    const unknown = error instanceof PosternError && error.outcome === 'unknown';
    this.#settle(unknown ? 'unknown' : 'refused', () => this.#reject(error));
  }

  /** Whether it must still be done: an operation that nobody waits for is left out of transactions not yet sent. */
  get open(): boolean {
    if (!this.settled && this.request.requester.gone) this.fail(new ClientGoneError(THE_CHANGE));
    return !this.settled;
  }

  #settle(outcome: CounterOutcome, settle: () => void): void {
    if (this.settled) return;
    this.settled = true;
    clearTimeout(this.#timer);
    this.count(outcome);
    settle();
  }
}

/** A planned transaction: the counter after it, and the result of each operation. */
interface Batch {
  transaction: MultiOperation[];
  /** In the order of the operations. */
  results: { pending: Pending; value?: number; error?: unknown }[];
  /** That it is made at; -1 where there is no counter yet. */
  version: number;
}

export class CounterWriter {
  readonly #context: Coordination;
  /** By path: who waits for the next transaction; there is an entry while one is in flight. */
  readonly #queues = new Map<string, Pending[]>();

  constructor(context: Coordination) {
    this.#context = context;
  }

  /** Counters that are being written. */
  get size(): number {
    return this.#queues.size;
  }

  /** @returns the counter after the operation. @throws PosternError as `applyOperation`, `conflict`, or NoReplyError */
  apply(request: CounterRequest): Promise<number> {
    const { layout, metrics } = this.#context;
    const { namespace, name, attempt } = request;
    const path = layout.counter(namespace, name);
    const markPath = attempt === undefined ? undefined : layout.counterMark(namespace, attempt.id);
    const pending = new Pending(request, markPath, (outcome) => metrics.counterOperationsTotal.inc({ outcome }));
    const queue = this.#queues.get(path);
    if (queue !== undefined) queue.push(pending);
    else {
      this.#queues.set(path, [pending]);
      void this.#work(path, name);
    }
    return pending.done;
  }

  /** One batch after the other, until nobody waits. */
  async #work(path: string, name: string): Promise<void> {
    const queue = this.#queues.get(path) as Pending[];
    // Operations that arrive at the same moment form the first batch together.
    await Promise.resolve();
    while (queue.length > 0) {
      const batch = queue.splice(0, BATCH_MAX);
      try {
        await this.#untilSettled(path, name, batch);
      } catch (error) {
        for (const pending of batch)
          pending.fail(pending.sent ? new NoReplyError(THE_CHANGE, 'connection-lost', true, error) : error);
      }
    }
    this.#queues.delete(path);
  }

  async #untilSettled(path: string, name: string, batch: readonly Pending[]): Promise<void> {
    const { control, metrics, names } = this.#context;
    const zk = control.until(Math.max(...batch.map(({ request }) => request.deadline)));
    /**
     * Transactions that were not answered, by the mark that each would have left. Of those at one version one can have
     * happened.
     */
    const lost = new Map<string, Batch>();
    let proven = false;
    for (let tries = 0; ; tries += 1) {
      const open = batch.filter((pending) => pending.open);
      if (open.length === 0) return;
      const attempt = newAttempt();
      let planned: Batch | undefined;
      try {
        const { counter, marks } = await read(zk, path, name, open);
        // Before planning, drop operations whose deadline has passed. Earlier transactions may have arrived by now.
        const makes = open.some(({ request }) => request.operation.type !== 'delete');
        if (counter === undefined && makes && lost.size === 0) await names.admit(parentOf(path), zk.deadline);
        for (const [id, sent] of lost) {
          if (counter?.marks.some((mark) => mark.id === id) === true) settle(sent);
          else if ((counter?.version ?? -1) > sent.version + MARKS_MAX) giveUp(sent);
        }
        planned = plan(path, name, recall(open, marks), counter, attempt);
        if (planned.transaction.length === 0 && planned.results.length > 0 && !proven) {
          // All are refused, and no write stands behind what was read.
          proven = await zk.fresh(() => Promise.resolve(true));
          continue;
        }
        if (planned.transaction.length > 0) {
          for (const { pending } of planned.results) pending.sent = true;
          const requester = sharing(planned.results, ({ pending }) => !pending.open);
          await control.writingFor(requester).until(zk.deadline).multi(planned.transaction);
          metrics.counterTransactionsTotal.inc();
        }
        settle(planned);
      } catch (error) {
        if (planned !== undefined && mayBeApplied(error)) lost.set(attempt.id, planned);
        else if (isReason(error, 'NO_NODE')) {
          if (planned !== undefined && lost.size === 0) for (const { pending } of planned.results) pending.sent = false;
          await makeDirectories(zk, planned);
        } else if (!isRepeatable(error)) throw error;
        // What was refused has not happened, and will not unless it is sent again.
        if (planned !== undefined && lost.size === 0) for (const { pending } of planned.results) pending.sent = false;
        if (performance.now() >= zk.deadline) throw isTransient(error) ? error : busy(name);
        if (!(error instanceof ClientGoneError)) await pause(fullJitter(tries, RETRY_BASE_MS, RETRY_CAP_MS));
      }
    }
  }
}

async function read(
  zk: BoundClient,
  path: string,
  name: string,
  open: readonly Pending[],
): Promise<{ counter: CounterNode | undefined; marks: Map<string, OperationMark> }> {
  const paths = [...new Set(open.flatMap(({ markPath }) => markPath ?? []))];
  const [, node, found] = await Promise.all([zk.sync(path), zk.find(path), readNodes(zk, paths)]);
  const marks = new Map<string, OperationMark>();
  for (const [i, mark] of found.entries())
    if (mark !== undefined) marks.set(paths[i] as string, decodeOperationMark(mark.data));
  return { counter: node === undefined ? undefined : decodeCounter(name, node), marks };
}

/** That of the counters, and those of the marks. */
async function makeDirectories(zk: BoundClient, planned: Batch | undefined): Promise<void> {
  const creates = (planned?.transaction ?? []).filter(({ type }) => type === 'create');
  for (const directory of new Set(creates.map(({ path }) => parentOf(path))))
    await zk.ensure(directory).catch((error: unknown) => {
      if (!isTransient(error)) throw error;
    });
}

/** Answers those that have happened before. @returns the others */
function recall(open: readonly Pending[], marks: ReadonlyMap<string, OperationMark>): Pending[] {
  return open.filter((pending) => {
    if (!pending.open) return false;
    const mark = pending.markPath === undefined ? undefined : marks.get(pending.markPath);
    if (mark === undefined) return true;
    answerRepeat(pending, mark);
    return false;
  });
}

function answerRepeat(pending: Pending, { value, fingerprint }: OperationMark): void {
  const attempt = pending.request.attempt as Attempt;
  try {
    checkSame({ fingerprint }, attempt);
    pending.succeed(value, 'repeated');
  } catch (error) {
    pending.fail(error);
  }
}

function plan(
  path: string,
  name: string,
  open: readonly Pending[],
  counter: CounterNode | undefined,
  attempt: Attempt,
): Batch {
  let state: Counter = counter?.state ?? UNUSED_COUNTER;
  const results: Batch['results'] = [];
  const marks: MultiOperation[] = [];
  const first = new Set<string>();
  for (const pending of open) {
    const { markPath, request } = pending;
    // A repeat that came with its first try is told after it, from the mark.
    if (markPath !== undefined && first.has(markPath)) continue;
    try {
      state = applyOperation(name, state, request.operation);
      const { value } = state;
      results.push({ pending, value });
      if (markPath === undefined) continue;
      first.add(markPath);
      const data = encodeOperationMark({ value, fingerprint: (request.attempt as Attempt).fingerprint });
      marks.push({ type: 'create', path: markPath, data });
    } catch (error) {
      results.push({ pending, error });
    }
  }
  const version = counter?.version ?? -1;
  if (results.every(({ error }) => error !== undefined)) return { transaction: [], results, version };
  const data = encodeCounter(state, withMark(counter?.marks ?? [], { ...attempt, version: version + 1, outcome: 0 }));
  const write: MultiOperation =
    counter === undefined ? { type: 'create', path, data } : { type: 'setData', path, data, version };
  return { transaction: [write, ...marks], results, version };
}

function settle({ results }: Batch): void {
  for (const { pending, value, error } of results) {
    if (value !== undefined) pending.succeed(value, 'applied');
    else pending.fail(error);
  }
}

function isRepeatable(error: unknown): boolean {
  return isReason(error, 'BAD_VERSION', 'NODE_EXISTS') || isTransient(error) || error instanceof ClientGoneError;
}

/**
 * So many transactions have followed that this one may have been among them and lost its mark: only operations with a
 * mark of their own know.
 */
function giveUp({ results }: Batch): void {
  for (const { pending } of results) {
    if (pending.markPath === undefined) pending.fail(new NoReplyError(THE_CHANGE, 'connection-lost', true));
  }
}

function busy(name: string): PosternError {
  return new PosternError('conflict', `Others wrote to the counter "${name}" all the time; repeat the request.`);
}
