/**
 * Group commit: writes of many requests share a transaction of the replica's own session.
 *
 *   a write ──▶ waits for the turn of the event loop to end ──▶ one transaction ──┬─▶ done: each has its results
 *           └─▶ … while as many as may be are in flight                           ├─▶ refused: each is sent by itself
 *                                                                                └─▶ no reply: nobody knows
 *
 * A write that is alone when the turn ends goes out as it is. So a single client waits no longer than without this, and
 * under load the next transaction fills up while others are on their way.
 *
 * What one is told is what one would have been told alone: a transaction that ZooKeeper refuses was refused as a whole,
 * and its writes are sent one by one, at once. A write that fails costs its neighbours one round trip, never an answer.
 * Two writes that touch one node never share a transaction, in which the second would see what the first has not yet
 * been said to have done. Only what any session may do can be committed here: no ephemeral nodes.
 *
 * A write that waits counts in the backlog as one that has been sent: what waits here is as late as what waits there.
 */
import { ClientGoneError } from '../errors.js';
import { sharing, type Requester } from '../time.js';
import type { BoundWriter } from './bound.js';
import type { Backlog } from './connection/backlog.js';
import { deadlineSweep, type Swept } from './connection/deadline-sweep.js';
import { flushSoon, type Flushed } from './connection/flush.js';
import { NoReplyError, ZooKeeperError } from './errors.js';
import { bytesOfAll, GROUP_BYTES_MAX } from './operations/bytes.js';
import { ANY_VERSION, type MultiOperation, type MultiResult, type Stat } from './operations.js';

const IN_FLIGHT_MAX = 2;
const OPERATIONS_MAX = 256;

/** The session that it writes through, for one client or several. */
interface Session {
  delete(path: string, version: number | undefined, deadline: number): Promise<void>;
  setData(path: string, data: Uint8Array, version: number | undefined, deadline: number): Promise<Stat>;
  multi(operations: readonly MultiOperation[], deadline: number): Promise<MultiResult[]>;
}

/** The session that it writes through. */
export interface Committer extends Session {
  readonly connected: boolean;
  whenConnected(deadline: number, operation?: string): Promise<void>;
  /** What is sent through it is withdrawn if the requester has gone when it is written (`ClientGoneError`). */
  writingFor(requester: Requester): Session;
}

/** The writes of one request; told once what came of them. */
class Write {
  settled = false;
  readonly #sentAt = performance.now();

  /** @param backlog in which they count from now on, waiting or in flight */
  constructor(
    readonly operations: readonly MultiOperation[],
    readonly deadline: number,
    readonly requester: Requester | undefined,
    readonly backlog: Backlog | undefined,
    readonly told: { resolve(results: MultiResult[]): void; reject(error: unknown): void },
  ) {
    backlog?.sent(this.#sentAt);
  }

  done(results: MultiResult[]): void {
    if (this.#settle(true)) this.told.resolve(results);
  }

  fail(error: unknown): void {
    if (this.#settle(error instanceof ZooKeeperError)) this.told.reject(error);
  }

  #settle(answered: boolean): boolean {
    if (this.settled) return false;
    this.settled = true;
    const now = performance.now();
    if (answered) this.backlog?.answered(now, now - this.#sentAt, true);
    else this.backlog?.lost(1);
    return true;
  }
}

/** Told of each transaction. */
export interface CommitObserver {
  /** It holds the writes of so many requests, and is about to be sent. */
  committed(writes: number): void;
  /** Several writes in one transaction were refused, and are sent one by one, or had no reply. */
  commitFailed(how: 'refused' | 'no-reply'): void;
}

export class GroupCommit implements Flushed, Swept {
  readonly #session: Committer;
  readonly #observer: CommitObserver;
  readonly #backlog: Backlog | undefined;
  #waiting: Write[] = [];
  readonly #inFlight = new Set<readonly Write[]>();
  #flushScheduled = false;

  constructor(session: Committer, observer: CommitObserver, backlog: Backlog | undefined) {
    this.#session = session;
    this.#observer = observer;
    this.#backlog = backlog;
  }

  /** How many writes wait for a transaction now. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * The writes of one request.
   * @param deadline ms on the monotonic clock
   * @param requester the client, if any: once it has gone, nothing is sent for it any more (`ClientGoneError`)
   */
  until(deadline: number, requester?: Requester): BoundWriter {
    return new GatheredWrites((operations) => this.#commit(operations, deadline, requester));
  }

  #commit(
    operations: readonly MultiOperation[],
    deadline: number,
    requester: Requester | undefined,
  ): Promise<MultiResult[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(new Write(operations, deadline, requester, this.#backlog, { resolve, reject }));
      deadlineSweep.add(this);
      this.#flushSoon();
    });
  }

  flush(): void {
    if (!this.#session.connected) return this.#awaitConnection();
    this.#flushScheduled = false;
    while (this.#inFlight.size < IN_FLIGHT_MAX && this.#waiting.length > 0) void this.#send(this.#takeGroup());
  }

  /** Sends all that waits, at once: the session is about to end, and nothing can be sent after that. */
  sendAll(): void {
    while (this.#session.connected && this.#waiting.length > 0) void this.#send(this.#takeGroup());
  }

  /** Called by the sweep of deadlines. Returns whether anything is left to watch. */
  sweep(now: number): boolean {
    for (const write of this.#waiting) failIfLate(write, now, false);
    for (const group of this.#inFlight) for (const write of group) failIfLate(write, now, true);
    return this.#waiting.length > 0 || this.#inFlight.size > 0;
  }

  #flushSoon(): void {
    if (this.#flushScheduled || this.#inFlight.size >= IN_FLIGHT_MAX) return;
    this.#flushScheduled = true;
    flushSoon(this);
  }

  /** Nothing goes out for who has hung up meanwhile, or whose time is over. */
  #awaitConnection(): void {
    const deadline = Math.max(...this.#waiting.map((write) => write.deadline));
    this.#session.whenConnected(deadline).then(
      () => this.flush(),
      (error: unknown) => {
        this.#flushScheduled = false;
        for (const write of this.#waiting.splice(0)) write.fail(error);
      },
    );
  }

  /** The writes for one transaction, in the order in which they came; the others go on waiting. */
  #takeGroup(): Write[] {
    const group: Write[] = [];
    const left: Write[] = [];
    const contents = new Contents();
    for (const write of this.#waiting) {
      if (isOver(write)) continue;
      if (contents.takes(write.operations)) group.push(write);
      else left.push(write);
    }
    this.#waiting = left;
    return group;
  }

  async #send(group: readonly Write[]): Promise<void> {
    if (group.length === 0) return;
    this.#inFlight.add(group);
    try {
      if (group.length === 1) await this.#sendAlone(group[0] as Write);
      else await this.#sendTogether(group);
    } finally {
      this.#inFlight.delete(group);
      if (this.#waiting.length > 0) this.#flushSoon();
    }
  }

  async #sendTogether(group: readonly Write[]): Promise<void> {
    const deadline = Math.max(...group.map((write) => write.deadline));
    try {
      this.#observer.committed(group.length);
      const results = await this.#session.writingFor(sharing(group, isOver)).multi(
        group.flatMap(({ operations }) => operations),
        deadline,
      );
      let from = 0;
      for (const write of group) write.done(results.slice(from, (from += write.operations.length)));
    } catch (error) {
      if (!(error instanceof ClientGoneError))
        this.#observer.commitFailed(error instanceof NoReplyError ? 'no-reply' : 'refused');
      if (error instanceof NoReplyError) for (const write of group) write.fail(error);
      else await Promise.all(group.filter((write) => !isOver(write)).map((write) => this.#sendAlone(write)));
    }
  }

  async #sendAlone(write: Write): Promise<void> {
    try {
      this.#observer.committed(1);
      write.done(await this.#asItIs(write));
    } catch (error) {
      write.fail(error);
    }
  }

  async #asItIs({ operations, deadline, requester }: Write): Promise<MultiResult[]> {
    const session = requester === undefined ? this.#session : this.#session.writingFor(requester);
    const [first] = operations;
    if (operations.length === 1 && first?.type === 'delete') {
      await session.delete(first.path, first.version, deadline);
      return [{ type: 'delete' }];
    }
    if (operations.length === 1 && first?.type === 'setData')
      return [{ type: 'setData', stat: await session.setData(first.path, first.data, first.version, deadline) }];
    return session.multi(operations, deadline);
  }
}

class GatheredWrites implements BoundWriter {
  readonly #commit: (operations: readonly MultiOperation[]) => Promise<MultiResult[]>;

  constructor(commit: (operations: readonly MultiOperation[]) => Promise<MultiResult[]>) {
    this.#commit = commit;
  }

  async set(path: string, data: Uint8Array, version?: number): Promise<Stat> {
    const [result] = await this.#commit([{ type: 'setData', path, data, version: version ?? ANY_VERSION }]);
    return (result as Extract<MultiResult, { type: 'setData' }>).stat;
  }

  async remove(path: string, version?: number): Promise<void> {
    await this.#commit([{ type: 'delete', path, version: version ?? ANY_VERSION }]);
  }

  multi(operations: readonly MultiOperation[]): Promise<MultiResult[]> {
    return this.#commit(operations);
  }
}

/** What one transaction holds so far. */
class Contents {
  readonly #written = new Set<string>();
  readonly #checked = new Set<string>();
  #operations = 0;
  #bytes = 0;

  /** Whether these operations fit in as well; then they are in it. One write always fits. */
  takes(operations: readonly MultiOperation[]): boolean {
    const bytes = bytesOfAll(operations);
    const isFirst = this.#operations === 0;
    const fits = this.#operations + operations.length <= OPERATIONS_MAX && this.#bytes + bytes <= GROUP_BYTES_MAX;
    if (!isFirst && (!fits || operations.some((operation) => this.#meets(operation)))) return false;
    this.#operations += operations.length;
    this.#bytes += bytes;
    for (const { type, path } of operations) (type === 'check' ? this.#checked : this.#written).add(path);
    return true;
  }

  /** Several may check one node; whoever writes it is alone with it. */
  #meets({ type, path }: MultiOperation): boolean {
    return this.#written.has(path) || (type !== 'check' && this.#checked.has(path));
  }
}

/** Who is told nothing more, or has gone, is in no further transaction. */
function isOver(write: Write): boolean {
  if (write.requester?.gone === true) write.fail(new ClientGoneError(nameOf(write.operations)));
  return write.settled;
}

function failIfLate(write: Write, now: number, sent: boolean): void {
  if (now >= write.deadline) write.fail(new NoReplyError(nameOf(write.operations), 'deadline', sent));
}

function nameOf(operations: readonly MultiOperation[]): string {
  const [first] = operations;
  return operations.length === 1 && first !== undefined ? first.type : 'multi';
}
