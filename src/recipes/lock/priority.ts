/**
 * Locks by priority: whoever asks with a higher `priority` is granted before those who wait with a lower one.
 *
 * Guarantee: who waits is granted in order of rank: its number in the room less 100 for each step of priority, lowest
 *   first (`line/room/rank.ts`). A rank never changes and is the same for everybody; so among equals it is first come
 *   first, and a request of priority p is passed by at most 100 × (10 − p) that come later. Who holds is not
 *   interrupted. All else (one holder, tokens that rise, release, revocation) is that of any lock, because the line is.
 * Not guaranteed: that a request with `waitMs: 0` passes anybody; nor that one does that comes while a turn is taken;
 *   nor, within 10 s of the order being written, that nobody is granted who comes without a priority to a replica that
 *   saw the lock become free before (`line/known-free.ts`): it holds alone, as anybody.
 *
 * In front of the line is a *room*. A request waits there, in order of rank; and while the line is empty the first of
 * the room goes into it, in one transaction: raise the room's version, delete the place in the room at its version,
 * make the place in the line, behind the lease's fence. From there on it is a place in line like any other, which the
 * request takes over and is granted (`line/acquire.ts`).
 *
 *   room is listed, then the line ─▶ I am not the first, or somebody stands in the line ─▶ not-yet
 *             │                   └─ my place stands in the line: an earlier try was done ─▶ written
 *             │                           └─ a later attempt had taken it over in the room ─▶ superseded
 *             ▼
 *        transaction ──done──▶ written
 *             └─ the room's version: somebody else had a turn ─▶ list again
 *             └─ my place: another attempt's ─▶ superseded; or gone ─▶ list again, then lost
 *
 * Two turns exclude each other, because the room is listed before the line: who listed the room before another's turn
 * fails by its version, and who listed it after that sees the other's place in the line.
 *
 * A place of this request is looked for in the room before it is looked for in the line, since it goes that way only;
 * so no two attempts of one request stand in both for longer than a moment (protocol C94).
 *
 * Where it can be cut off:
 *
 *   before the turn's transaction     the place waits in the room; nobody asks for it any more: it is abandoned (C3)
 *   its reply lost                    the fence is raised, and the line listed: there it is, or never will be
 *   between the turn and the grant    the place waits first in the line: the repeated request takes it over; if nobody
 *                                     does, it is abandoned
 *   the lease ends                    both places are its session's, and go with it
 *
 * That a lock is taken by priority its directory says (`line/directory.ts`). It is written by the first who asks with a
 * priority, where nobody stands in the line, and is forgotten with the directory, an hour after its last use.
 * It is written before anybody knows whether the lease still lives, or the client: then it stays for that hour.
 *
 * Layout:  <root>/ns/<namespace>/lock-rooms/<name>/_c_<guid>-prio<priority>-<sequence>
 *            ephemeral, of the lease's session
 */
import { isPosternError, LeaseExpiredError, PosternError, StandingConflictError } from '../../errors.js';
import { lockDelaysOf, ROOM } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import { isReason, isTransient, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { Listing, MultiOperation, Stat } from '../../zookeeper/operations.js';
import { nextSequence, parentOf } from '../../zookeeper/paths.js';
import { retrying } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import { removeIfAbandoned } from '../line/abandoned.js';
import { decodeRecord, encodeRecord, isNamed, nodePrefix, sortLine } from '../line/contender.js';
import { describeContender } from '../line/describe.js';
import { ownDirectory, readLineDirectory } from '../line/directory.js';
import type { Line, Turn } from '../line/line.js';
import type { Place, Written } from '../line/place.js';
import { acquireLine, type AcquireLine } from '../line/request.js';
import { RoomTurns } from '../line/room/turns.js';
import { PLACES_END } from '../line/worn-directory.js';

export type AcquireByPriority = Omit<AcquireLine, 'kind' | 'mode' | 'permits'> & { priority: number };

const LOCK = { kind: 'lock', mode: 'exclusive' } as const;
/** Each look that finds another state than before had somebody come or go in that moment. */
const LOOKS_MAX = 20;

/** @throws as `acquireLine`; StandingConflictError where the lock is in use in order of arrival */
export async function acquireByPriority(
  context: Coordination,
  lease: Lease,
  request: AcquireByPriority,
): Promise<Granted | NotGranted> {
  const taking = new Taking(context, lease, request);
  const { priority: _, ...inLine } = request;
  if (!(await taking.agree())) {
    const waited = await taking.waitInRoom();
    if (waited !== undefined) return waited;
  }
  return taking.takeOver(() => acquireLine(context, lease, { ...inLine, ...LOCK, hasTurn: true }));
}

class Taking {
  readonly #context: Coordination;
  readonly #lease: Lease;
  readonly #request: AcquireByPriority;
  readonly #line: string;
  readonly #room: string;
  readonly #guid: string;
  /** Of the place whose turn was tried. */
  #attempt: string | undefined;
  /** The place stands in the line. */
  #isInLine = false;

  constructor(context: Coordination, lease: Lease, request: AcquireByPriority) {
    this.#context = context;
    this.#lease = lease;
    this.#request = request;
    this.#line = context.layout.line('lock', lease.namespace, request.name);
    this.#room = context.layout.line(ROOM, lease.namespace, request.name);
    this.#guid = lease.guid('lock', request.name, request.requestId);
  }

  /**
   * Sees to it that the lock is one by priority.
   * @returns whether a place of this request stands in its line already
   * @throws StandingConflictError
   */
  async agree(): Promise<boolean> {
    const { hardDeadline, name } = this.#request;
    const zk = this.#context.control.until(hardDeadline);
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const agreed = await retrying(hardDeadline, async () => {
        const [, listing] = await Promise.all([zk.sync(this.#line), zk.list(this.#line)]);
        const directory = listing && readLineDirectory(listing.stat);
        if (directory !== undefined) this.#context.lines.noteOrder(this.#line, directory);
        if (listing !== undefined && directory?.byPriority === true) return this.#ownIn(listing);
        await (listing === undefined ? this.#makeLine() : this.#writeOrder(listing));
        return undefined;
      });
      if (agreed !== undefined) return agreed;
    }
    throw new PosternError('conflict', `Others came and went at lock "${name}" in every moment; repeat the request.`);
  }

  /** @returns undefined once its place stands in the line */
  async waitInRoom(): Promise<NotGranted | undefined> {
    const request = this.#request;
    try {
      const waited = await acquireLine(this.#context, this.#lease, {
        ...request,
        ...LOCK,
        assign: (turn) => this.#take(turn),
        advance: (place, room) => this.#beforeWait(place, room),
      });
      return waited.held ? undefined : await this.#describe(waited);
    } catch (error) {
      if (this.#isInLine && isPosternError(error, 'conflict')) return undefined;
      this.#endTurn(error);
      throw error;
    }
  }

  /** @param take over, as another attempt, the place that the turn has made: if that fails it is the turn's still */
  async takeOver(take: () => Promise<Granted | NotGranted>): Promise<Granted | NotGranted> {
    try {
      return await take();
    } catch (error) {
      this.#endTurn(error);
      throw error;
    }
  }

  /** Somebody else's turn, or an earlier attempt's, may have come between the looks at room and line. */
  async #beforeWait(place: Place, room: Line): Promise<'written'> {
    const { hardDeadline } = this.#request;
    const zk = this.#context.control.until(hardDeadline);
    const listing = await retrying(hardDeadline, async () => {
      await zk.sync(this.#line);
      return zk.list(this.#line);
    });
    room.turns ??= new RoomTurns(this.#context, room, this.#line);
    if (listing === undefined || !this.#ownIn(listing)) return 'written';
    await this.#leaveRoom(place, room, hardDeadline);
    throw new PosternError('conflict', 'An earlier request has had its turn.'); // not answered: `waitInRoom`
  }

  async #take(turn: Turn): Promise<Written | 'not-yet'> {
    const { requester } = this.#request;
    const { sessions } = this.#context.leases;
    return sessions.useRepeatedly(this.#lease, turn.deadline, (session) => this.#takeOn(session, turn), requester);
  }

  async #takeOn(session: LeaseSession, { place, line: room, deadline }: Turn): Promise<Written | 'not-yet'> {
    const zk = session.until(deadline);
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const [, inRoom, inLine] = await Promise.all([zk.sync(this.#room), zk.list(this.#room), zk.list(this.#line)]);
      if (inLine !== undefined && this.#ownIn(inLine))
        return this.#hadTurn(session, { place, line: room, deadline }, inLine);
      const waiting = sortLine(inRoom?.children ?? []);
      if (inRoom === undefined || !waiting.some(({ name }) => name === place.name)) return 'lost';
      if (waiting[0]?.name !== place.name) return 'not-yet';
      const [head] = sortLine(inLine?.children ?? []);
      if (head !== undefined && !(await removeIfAbandoned(this.#context, this.#line, head, deadline))) return 'not-yet';
      if (head !== undefined) continue;
      if (inLine === undefined || !readLineDirectory(inLine.stat).byPriority) {
        await this.#agreeAgain(place, room, deadline);
        continue;
      }
      const done = await this.#enter(session, place, { room: inRoom.stat, line: inLine.stat }, deadline);
      if (done === 'written') room.remove(place);
      if (done !== undefined) return done;
    }
    return 'not-yet';
  }

  /**
   * A place of this request stands in the line: its own, whose turn's reply was lost; one of an earlier attempt, which
   * this one takes over; or that of a later one, which had taken over its place in the room.
   */
  async #hadTurn(
    session: LeaseSession,
    { place, line: room, deadline }: Pick<Turn, 'place' | 'line' | 'deadline'>,
    { children }: Listing,
  ): Promise<Written> {
    const zk = session.until(deadline);
    // Listed behind the line: while it stands there, no later one has had a turn with it.
    if (!(await zk.children(this.#room)).includes(place.name)) {
      const own = children.find((name) => isNamed(name, this.#guid)) as string;
      const node = await zk.find(`${this.#line}/${own}`);
      if (node !== undefined && decodeRecord(node.data)?.attempt !== place.record.attempt) return 'superseded';
    }
    return this.#leaveRoom(place, room, deadline);
  }

  /** Somebody has written over the order, or forgotten it. Where it cannot be agreed on, nobody waits behind this. */
  async #agreeAgain(place: Place, room: Turn['line'], deadline: number): Promise<void> {
    try {
      await this.agree();
    } catch (error) {
      if (isPosternError(error, 'conflict') && (await place.leave(deadline)) === 'gone') room.remove(place);
      throw error;
    }
  }

  /**
   * The transaction of the turn. A directory that runs out of numbers, in which nobody stands, is renewed in it
   * (`line/worn-directory.ts`).
   * @returns undefined when something was no longer as it had been read
   */
  async #enter(
    session: LeaseSession,
    place: Place,
    read: { room: Stat; line: Stat },
    deadline: number,
  ): Promise<'written' | 'superseded' | undefined> {
    this.#attempt = place.record.attempt;
    const path = `${this.#line}/${nodePrefix(this.#guid, 'lock-')}`;
    const renewal: MultiOperation[] =
      nextSequence(read.line) < PLACES_END
        ? []
        : [
            { type: 'delete', path: this.#line, version: read.line.version },
            { type: 'create', path: this.#line, data: ownDirectory(false, true) },
          ];
    try {
      await session.multi(
        [
          { type: 'setData', path: this.#room, data: ownDirectory(false), version: read.room.version },
          { type: 'delete', path: place.path, version: place.version },
          ...renewal,
          { type: 'create', path, data: encodeRecord(place.record), mode: 'ephemeral-sequential' },
        ],
        deadline,
      );
      return 'written';
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY')) throw error;
      return error.failedIndex === 1 ? this.#whosePlace(session, place, deadline) : undefined;
    }
  }

  async #whosePlace(session: LeaseSession, place: Place, deadline: number): Promise<'superseded' | undefined> {
    const zk = session.until(deadline);
    await zk.sync(place.path);
    const node = await zk.find(place.path);
    if (node === undefined) return undefined;
    if (decodeRecord(node.data)?.attempt !== place.record.attempt) return 'superseded';
    place.version = node.stat.version; // a write of its own whose reply was lost
    return undefined;
  }

  async #leaveRoom(place: Place, room: Pick<Turn['line'], 'remove'>, deadline: number): Promise<'written'> {
    this.#isInLine = true;
    await place.leave(deadline);
    room.remove(place);
    return 'written';
  }

  #ownIn({ children }: Listing): boolean {
    return children.some((name) => isNamed(name, this.#guid));
  }

  /** Where nobody has used the lock lately. Not while the delay of a hold runs that was lost before. */
  async #makeLine(): Promise<void> {
    const { hardDeadline, name } = this.#request;
    const { control, names } = this.#context;
    const marks = lockDelaysOf(this.#line);
    await names.admit(parentOf(this.#line), hardDeadline);
    try {
      await control.multi(
        [
          { type: 'create', path: marks },
          { type: 'delete', path: marks },
          { type: 'create', path: this.#line, data: ownDirectory(false, true) },
        ],
        hardDeadline,
      );
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS') && error.failedIndex === 0) throw inUse(name);
      if (isReason(error, 'NODE_EXISTS')) return;
      if (!isReason(error, 'NO_NODE')) throw error;
      await control.ensurePath(parentOf(this.#line), hardDeadline);
      await control.ensurePath(parentOf(marks), hardDeadline);
    }
  }

  /**
   * Over the order of arrival, where nobody stands. Another program's directory is made anew: the server may remove it,
   * and nobody relies on its numbers.
   */
  async #writeOrder({ children, stat }: Listing): Promise<void> {
    const { hardDeadline, name } = this.#request;
    const path = this.#line;
    const directory = readLineDirectory(stat);
    if (children.length > 0 || directory.delays) throw inUse(name);
    const data = ownDirectory(false, true);
    const { version } = stat;
    const written =
      directory.removable && !directory.idle
        ? this.#context.control.multi(
            [
              { type: 'delete', path, version },
              { type: 'create', path, data },
            ],
            hardDeadline,
          )
        : this.#context.control.setData(path, data, version, hardDeadline);
    await unless(Promise.resolve(written), 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY');
  }

  /** What the turn has made in the line, if it was had, goes, unless the client comes back for it. */
  #endTurn(why: unknown): void {
    if (this.#attempt === undefined || why instanceof LeaseExpiredError) return;
    const { cleanup, layout, zooKeeperClock } = this.#context;
    cleanup.endAttempt(this.#line, [this.#guid], this.#attempt, {
      fence: layout.lease(this.#lease.namespace, this.#lease.leaseId),
      keptUntil: this.#request.keepPlace ? Math.round(zooKeeperClock.now()) : undefined,
    });
  }

  /**
   * Who is in the way is said of the line, where somebody stands in it.
   * @returns undefined if it is this request that does: by the turn of another attempt, since its own was looked for
   */
  async #describe(waited: NotGranted): Promise<NotGranted | undefined> {
    if (waited.why !== 'refused') return waited;
    const zk = this.#context.control.until(this.#request.hardDeadline);
    const refused = { ...waited, position: Math.max(1, waited.position) };
    const reading = async (): Promise<NotGranted | undefined> => {
      const [, listing] = await Promise.all([zk.sync(this.#line), zk.list(this.#line)]);
      if (listing !== undefined && this.#ownIn(listing)) return undefined;
      const [head] = sortLine(listing?.children ?? []);
      const node = head === undefined ? undefined : await zk.find(`${this.#line}/${head.name}`);
      if (head === undefined || node === undefined) return refused;
      const view = describeContender(head, node);
      return view.state === 'waiting' ? { ...refused, next: view } : { ...refused, holder: view, next: undefined };
    };
    return reading().catch((error: unknown) => {
      if (isTransient(error)) return refused; // the refusal stands without the holder's name
      throw error;
    });
  }
}

function inUse(name: string): PosternError {
  return new StandingConflictError(
    `Lock "${name}" is in use in order of arrival. It can be taken by priority when nobody stands in its line; where holds have had a lock-delay, when nobody has used it for an hour.`,
  );
}
