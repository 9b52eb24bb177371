/**
 * Posts a message: read the log, then one transaction that writes the log at the version that was read, makes the
 * message, and drops those that are too many. Begun again if somebody else was faster, or if the answer was lost.
 *
 *   turn ─▶ read ─▶ write at the version that was read ──▶ told its number
 *            │ ▲         │
 *            │ └─────────┴── BAD_VERSION, or no answer: what stands under its number shows whether it was done
 *            └──▶ a mark of its requestId: told the number of the first attempt
 */
import type { Awaited } from '../../../time.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { isReason, mayBeApplied, NoReplyError, type ZooKeeperError } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { parentOf } from '../../../zookeeper/paths.js';
import { AGAIN, persisting } from '../../../zookeeper/retrying.js';
import type { Coordination } from '../../coordination.js';
import { checkSame, newAttempt, type Attempt } from '../../marks.js';
import { Turns } from '../../waiting/turns.js';
import {
  decodeLog,
  decodeMark,
  decodeMessage,
  encodeMark,
  encodeMessage,
  messagePath,
  writeLog,
  type Log,
  type LogRef,
} from './log.js';

export interface Post extends Awaited {
  readonly ref: LogRef;
  /** The principal. */
  readonly by: string;
  readonly body: unknown;
  /** From the requestId; without one, repetitions are not recognised. */
  readonly request: Attempt | undefined;
}

export interface Posted {
  readonly number: number;
  /** By an earlier request of this requestId. */
  readonly repeated: boolean;
}

const THE_MESSAGE = 'the message to the group';
/** In one transaction: more than one only where fewer are kept than before. */
const DROPPED_AT_ONCE = 100;

/** Of one replica. */
export class Posts {
  readonly #context: Coordination;
  readonly #kept: number;
  readonly #turns = new Turns();

  /** @param kept how many messages of a group are kept */
  constructor(context: Coordination, kept: number) {
    this.#context = context;
    this.#kept = kept;
  }

  /** Groups that are being posted to. */
  get size(): number {
    return this.#turns.size;
  }

  /**
   * @throws PosternError `conflict`, `too-many-names`, `invalid` where the requestId stands for another message;
   *   ClientGoneError, NoReplyError
   */
  async post(asked: Post): Promise<Posted> {
    const { ref, deadline } = asked;
    const attempt = new PostAttempt(this.#context, this.#kept, asked);
    const posted = await this.#turns.take([ref.path], deadline, () =>
      persisting(THE_MESSAGE, deadline, (maybeApplied) => attempt.once(maybeApplied)),
    );
    this.#context.metrics.groupMessagesTotal.inc({ outcome: posted.repeated ? 'repeated' : 'posted' });
    return posted;
  }
}

/** One message on its way; `once` is called until it is there. */
class PostAttempt {
  readonly #context: Coordination;
  readonly #kept: number;
  readonly #asked: Post;
  readonly #zk: BoundClient;
  readonly #id = newAttempt().id;
  readonly #data: Buffer;
  readonly #markPath: string | undefined;
  /** Under which it may stand, because the transaction that would have put it there was not answered. */
  #lost: number | undefined;
  /** Messages that somebody else has removed. */
  readonly #gone = new Set<number>();
  #isFirst = true;

  constructor(context: Coordination, kept: number, asked: Post) {
    const { ref, by, body, request, deadline, requester } = asked;
    this.#context = context;
    this.#kept = kept;
    this.#asked = asked;
    this.#zk = context.control.writingFor(requester).until(deadline);
    this.#data = encodeMessage({ attempt: this.#id, by, body });
    this.#markPath = request === undefined ? undefined : context.layout.groupMessageMark(ref.namespace, request.id);
  }

  async once(maybeApplied: boolean): Promise<Posted | typeof AGAIN> {
    const { ref } = this.#asked;
    const zk = this.#zk;
    // The first look may be an older state: then the write is refused, and no harm.
    if (!this.#isFirst) await zk.sync(ref.path);
    this.#isFirst = false;
    const [node, repeated] = await Promise.all([zk.find(ref.path), this.#repeated()]);
    if (repeated !== undefined) return { number: repeated, repeated: repeated !== this.#lost };
    if (node === undefined) return this.#makeLog();
    const log = decodeLog(ref.name, node);
    const lost = this.#lost;
    if (lost !== undefined && lost < log.next) {
      if (lost < log.first) throw new NoReplyError(THE_MESSAGE, 'connection-lost', maybeApplied);
      if (await this.#isMine(lost)) return { number: lost, repeated: false };
      this.#lost = undefined;
    }
    return this.#write(log);
  }

  async #write(log: Log): Promise<Posted | typeof AGAIN> {
    const { ref } = this.#asked;
    const number = log.next;
    const first = Math.min(Math.max(log.first, number + 1 - this.#kept), log.first + DROPPED_AT_ONCE);
    const drops: MultiOperation[] = [];
    for (let old = log.first; old < first; old += 1)
      if (!this.#gone.has(old)) drops.push({ type: 'delete', path: messagePath(ref, old) });
    const operations: MultiOperation[] = [
      writeLog(ref, log, { first, next: number + 1 }),
      { type: 'create', path: messagePath(ref, number), data: this.#data },
      ...this.#mark(number),
      ...drops,
    ];
    try {
      await this.#zk.multi(operations);
    } catch (error) {
      if (mayBeApplied(error)) this.#lost = number;
      if (!isReason(error, 'BAD_VERSION', 'NO_NODE', 'NODE_EXISTS')) throw error;
      await this.#afterRefusal(error, operations, log);
      return AGAIN;
    }
    this.#context.metrics.groupMessagesTotal.inc({ outcome: 'dropped' }, drops.length);
    return { number, repeated: false };
  }

  /** Nothing was written; does away with what was in the way, unless somebody was just faster. */
  async #afterRefusal(error: ZooKeeperError, operations: readonly MultiOperation[], log: Log): Promise<void> {
    const refused = operations[error.failedIndex ?? 0]?.path;
    if (error.reason === 'NO_NODE' && refused === this.#markPath && refused !== undefined)
      return this.#context.control.until(this.#asked.deadline).ensure(parentOf(refused));
    for (let old = log.first; error.reason === 'NO_NODE' && old < log.next; old += 1)
      if (refused === messagePath(this.#asked.ref, old)) this.#gone.add(old);
  }

  /** So that its zxid, from which the numbers count, is known. */
  async #makeLog(): Promise<typeof AGAIN> {
    const { ref, deadline } = this.#asked;
    await this.#context.names.admit(parentOf(ref.path), deadline);
    await this.#context.control.until(deadline).ensure(ref.path);
    return AGAIN;
  }

  #mark(number: number): MultiOperation[] {
    const { request } = this.#asked;
    if (this.#markPath === undefined || request === undefined) return [];
    return [{ type: 'create', path: this.#markPath, data: encodeMark({ number, fingerprint: request.fingerprint }) }];
  }

  /** The number that an earlier attempt of this requestId was given. */
  async #repeated(): Promise<number | undefined> {
    const { request } = this.#asked;
    if (this.#markPath === undefined || request === undefined) return undefined;
    const node = await this.#zk.find(this.#markPath);
    if (node === undefined) return undefined;
    const mark = decodeMark(node);
    checkSame(mark, request);
    return mark.number;
  }

  async #isMine(number: number): Promise<boolean> {
    const node = await this.#zk.find(messagePath(this.#asked.ref, number));
    return node !== undefined && decodeMessage(node.data)?.attempt === this.#id;
  }
}
