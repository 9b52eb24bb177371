/**
 * Getting a place in line, once, however often the request is repeated and wherever it is cut off.
 *
 * 1. When nobody waits here for this name: create my node as `granted`, and list, in one round trip (a session's requests are
 *    answered in order, so the listing shows my node). First in line: held, after one write. Where this replica saw the lock become free,
 *    nothing is listed: the number that the node is given says whether it is first (`free-lines.ts`).
 *    When requests of this replica wait already, the node is created as `waiting`, and the listing is one that
 *    all joiners of the moment share.
 * 2. The listing shows an older node under my guid: an earlier try of this request made it. That one is my place; I *adopt* it
 *    by a version-checked write before I answer, so that the earlier attempt can no longer give it up (C1). Nodes
 *    above it are removed in a transaction that checks that the place still exists (C6).
 * 3. After a lost connection: attach, `sync`, list, and create only if there is nothing under my guid.
 * 4. With `waitMs: 0` the line is looked at first, and nothing is created when somebody stands in it; except where this replica saw
 *    the lock become free, and nobody else has been seen since.
 *
 * A contender with a lock-delay is always created as `waiting`, and so is everybody where a delay may be running: their grants are
 * transactions (`grant.ts`). A directory is made anew only in a transaction that makes and removes the directory of its marks as well: if
 * there is one, that fails, and the line is made as one in which delays are in use (`lock-delay.ts`).
 *
 * For a semaphore:
 *
 * - The node is always created as `waiting`; its grant checks the limit in the same transaction (`grant.ts`).
 * - The directory is made with the limit of who comes first. Everybody else compares, and creates its node in a transaction that
 *   checks the version of what it compared with. A limit that differs is read once more after a `sync` before it is refused, and
 *   whoever has a place already keeps it: a request that is repeated after the limit was changed goes on.
 *
 * The guid is derived from the lease's secret, so a node of that name is this session's (CURATOR-498). The one that a one-call
 * acquire uses is not: there the record must name this lease.
 */
import { isPosternError, LeaseExpiredError, LimitMismatchError, PosternError } from '../errors.js';
import { lockDelaysOf, type LineKind } from '../leases/layout.js';
import type { Lease } from '../leases/lease.js';
import type { Kind } from '../metrics/metrics.js';
import { isReason, NoReplyError, unless } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { Created, MultiOperation, Stat } from '../zookeeper/operations.js';
import { baseName, parentOf } from '../zookeeper/paths.js';
import { removeIfAbandoned } from './abandoned.js';
import { createTail, deleteTail } from './candidate-tail.js';
import { delayOf } from './delay-mark.js';
import { decodeAgreement, encodeAgreement } from './agreement.js';
import {
  decodeRecord,
  encodeRecord,
  guidOf,
  isNamed,
  newAttempt,
  nodePrefix,
  parseContender,
  prefixOf,
  sortLine,
  withState,
  type Contender,
  type ContenderRecord,
} from './contender.js';
import type { Coordination } from './coordination.js';
import { tellOfDelays } from './end-lease.js';
import { isOverwritten, recordForeignRevoke } from './foreign-revoke.js';
import { mayProve, proves } from './free-lines.js';
import type { Line } from './line.js';
import { ownDirectory, type SeenDirectory } from './line-directory.js';
import { findDelay } from './lock-delay.js';
import { Place } from './place.js';
import { obstacle, type Mode } from './rule.js';

export interface JoinRequest {
  mode: Mode;
  /** Of a semaphore: how many there are, as the caller knows it, and how many it wants. */
  permits?: { limit: number; count: number } | undefined;
  name: string;
  lease: Lease;
  requestId: string;
  /** Under which the place is found again; the first is used for a new node. The second may be another lease's: it is checked. */
  guids: { own: string; shared: string | undefined; create: 'own' | 'shared' };
  data: unknown;
  /** For how long nobody is granted what the hold excludes, if it is lost; 0: not at all. */
  lockDelayMs: number;
  leaseToken?: string | undefined;
  /** 0, and no `keepPlace`: the caller wants a place only where it is free. */
  waitMs: number;
  /** What is left in line when no answer can be given stays there. */
  keepPlace: boolean;
  /** See `AcquireRequest`. */
  stays?: boolean | undefined;
  hardDeadline: number;
}

export type Joined =
  | {
      how: 'placed';
      place: Place;
      first: boolean;
      alreadyHeld: boolean;
      expiresAt: number;
      seen?: SeenDirectory | undefined;
    }
  /** The caller does not wait, and somebody stands in line, or a lock-delay runs. */
  | { how: 'refused'; head: Contender }
  | { how: 'refused'; head: undefined; lockedUntil: number };

/** The place that was found is gone before it could be adopted: look again. */
const LOOK_AGAIN = Symbol('look again');

export async function join(context: Coordination, kind: Kind, line: Line, request: JoinRequest): Promise<Joined> {
  const { lease, hardDeadline } = request;
  const expiresAt = context.leases.expiresAt(lease);
  const trace: Trace = { attempt: newAttempt(), wrote: false };
  const joinOn = async (session: LeaseSession, attempt: number): Promise<Joined> => {
    const joining = new Joining(context, kind, line, request, session, expiresAt, trace);
    const told = request.lockDelayMs > 0 ? tellOfDelays(context, session, lease, hardDeadline) : undefined;
    told?.catch(() => undefined); // awaited below; here the other requests may fail first
    const free = joining.knownFree();
    for (let look = attempt > 0 || (joining.onlyIfFree && !free); ; look = true) {
      const looks = look || (request.permits !== undefined && !(await joining.agrees()));
      const joined = looks ? await joining.lookThenCreate() : await joining.create();
      if (joined !== LOOK_AGAIN) {
        if (told !== undefined) await told;
        return joined;
      }
      if (performance.now() > hardDeadline)
        throw new PosternError(
          'conflict',
          `The place in line for "${request.name}" changed hands while it was taken; repeat the request.`,
        );
    }
  };
  try {
    return await context.leases.sessions.useRepeatedly(lease, hardDeadline, joinOn);
  } catch (error) {
    const maybePlaced = trace.wrote || (error instanceof NoReplyError && error.maybeApplied);
    if (!maybePlaced || error instanceof LeaseExpiredError) throw error;
    const { own, shared } = request.guids;
    // After a conflict there is nothing to come back for: what was wanted kept is not what this attempt made.
    if (!request.keepPlace || isPosternError(error, 'conflict')) {
      const guids = shared === undefined ? [own] : [own, shared];
      context.cleanup.deleteAttempt(line.path, guids, trace.attempt, trace.heldBefore);
    }
    if (!(error instanceof NoReplyError) || error.maybeApplied) throw error;
    throw new NoReplyError('the place in line', 'connection-lost', true, error);
  }
}

/** What a request leaves in ZooKeeper, over all the connections that it takes. */
interface Trace {
  readonly attempt: string;
  /** A node of this attempt stands in line, or did. */
  wrote: boolean;
  /**
   * The czxid of a hold that an earlier attempt was granted, and that this one found. It stays, whatever becomes of this request: an
   * earlier answer may have told the client of it.
   */
  heldBefore?: number;
}

class Joining {
  /** The caller does not wait and does not want to be left in line. */
  readonly onlyIfFree: boolean;
  readonly #context: Coordination;
  readonly #kind: Kind;
  readonly #line: Line;
  readonly #request: JoinRequest;
  readonly #session: LeaseSession;
  readonly #expiresAt: number;
  readonly #record: ContenderRecord;
  readonly #trace: Trace;

  constructor(
    context: Coordination,
    kind: Kind,
    line: Line,
    request: JoinRequest,
    session: LeaseSession,
    expiresAt: number,
    trace: Trace,
  ) {
    this.onlyIfFree = request.waitMs === 0 && !request.keepPlace;
    this.#context = context;
    this.#kind = kind;
    this.#trace = trace;
    this.#line = line;
    this.#request = request;
    this.#session = session;
    this.#expiresAt = expiresAt;
    const { lease, lockDelayMs } = request;
    this.#record = {
      state: request.permits === undefined && lockDelayMs === 0 ? 'granted' : 'waiting',
      attempt: trace.attempt,
      leaseId: lease.leaseId,
      principal: lease.principal,
      label: lease.label,
      requestId: request.requestId,
      data: request.data,
      delayMs: lockDelayMs > 0 ? lockDelayMs : undefined,
      candidate: kind === 'election' ? { acknowledged: false } : undefined,
      leaseToken: request.leaseToken,
      waitUntil: undefined,
      grantedAt: undefined,
    };
  }

  async lookThenCreate(): Promise<Joined | typeof LOOK_AGAIN> {
    const { hardDeadline } = this.#request;
    const { path } = this.#line;
    for (;;) {
      const [, listed] = await Promise.all([this.#session.sync(path, hardDeadline), this.#list(this.#session)]);
      const own = await this.#own(listed);
      if (own.length > 0) return this.#adopt(listed, own);
      if (!(await this.agrees())) throw this.#mismatch();
      const head = obstacle(this.#line.rule, listed, {
        reads: this.#request.mode === 'read',
        permits: this.#request.permits?.count,
      });
      if (!this.onlyIfFree) return this.create();
      const { control, zooKeeperClock } = this.#context;
      if (head === undefined) {
        if (this.#line.directory?.delays !== true) return this.create();
        const sought = { reads: this.#request.mode === 'read', zxid: this.#line.zxid };
        const locked = await findDelay(this.#context, path, sought, hardDeadline);
        return locked === undefined ? this.create() : { how: 'refused', head: undefined, ...locked };
      }
      if (!(await removeIfAbandoned(control, zooKeeperClock, path, head, hardDeadline)))
        return { how: 'refused', head };
    }
  }

  /** Whether the caller names the number of permits that was agreed on; true where there is nothing to agree on, or not yet. */
  async agrees(): Promise<boolean> {
    const { permits } = this.#request;
    if (permits === undefined) return true;
    const same = (): boolean => {
      const limit = this.#agreedLimit();
      return limit === undefined || limit === permits.limit;
    };
    if (this.#line.agreed === undefined) await this.#readAgreement(false);
    if (same()) return true;
    await this.#readAgreement(true);
    return same();
  }

  async #readAgreement(upToDate: boolean): Promise<void> {
    const { control } = this.#context;
    const { hardDeadline, name } = this.#request;
    const { path } = this.#line;
    const [, node] = await Promise.all([
      upToDate ? control.sync(path, hardDeadline) : undefined,
      unless(control.getData(path, hardDeadline), 'NO_NODE'),
    ]);
    if (node === undefined) {
      if (upToDate) this.#line.agreed = undefined;
      return;
    }
    const agreement = decodeAgreement(node);
    if (agreement === undefined)
      throw new PosternError('conflict', `The directory of "${name}" was made by another client: it is no semaphore.`);
    this.#line.agree(agreement);
  }

  #agreedLimit(): number | undefined {
    return this.#line.agreed?.limit;
  }

  #mismatch(): LimitMismatchError {
    const asked = this.#request.permits?.limit ?? 0;
    return new LimitMismatchError(this.#request.name, asked, this.#agreedLimit() ?? asked);
  }

  /** Whether this replica saw the lock become free, and knows of nobody who would be in the way. */
  knownFree(): boolean {
    return this.#mayBeFirst() && this.#context.freeLines.has(this.#line.path);
  }

  /** Whether a place may be first by its number alone: in a lock, with nothing that has to be looked at. */
  #mayBeFirst(): boolean {
    const { guids } = this.#request;
    const { waiters, directory } = this.#line;
    return (
      this.#kind === 'lock' &&
      guids.create === 'own' &&
      this.#record.state === 'granted' &&
      waiters.size === 0 &&
      directory?.delays !== true
    );
  }

  async create(): Promise<Joined | typeof LOOK_AGAIN> {
    const crowded = this.#line.waiters.size > 0;
    const startedAt = performance.now();
    const free = this.#mayBeFirst() ? this.#context.freeLines.take(this.#line.path) : undefined;
    const record: ContenderRecord =
      crowded || this.#record.state === 'waiting' || this.#line.directory?.delays === true
        ? this.#waiting(this.#record)
        : withState(this.#record, 'granted', { grantedAt: this.#context.zooKeeperClock.now() });
    const creating = this.#createNode(record);
    const listing = crowded || (free !== undefined && mayProve(free)) ? undefined : this.#list(this.#session);
    listing?.catch(() => undefined);
    const outcome = await creating;
    if (outcome === LOOK_AGAIN) {
      await listing?.catch(() => undefined);
      return LOOK_AGAIN;
    }
    const { created, directory } = outcome;
    const firstEver = directory !== undefined;
    this.#trace.wrote = true;
    const mine = parseContender(baseName(created.path)) as Contender;
    if (firstEver) this.#line.merge([mine], created.stat.czxid, directory);
    const place = this.#place(mine, created, record);
    // Nobody can be ahead of sequence 0 in a directory that was made in the same transaction.
    if (firstEver) return this.#placed(place, true, this.#seen(startedAt, created.stat.ctime));
    if (free !== undefined && proves(free, { sequence: mine.sequence, ctime: created.stat.ctime })) {
      this.#line.merge([mine], created.stat.czxid);
      this.#line.directory ??= free.seen?.directory;
      return this.#placed(place, true, free.seen);
    }
    let listed: readonly Contender[];
    if (crowded && this.#follows(mine, created.stat)) {
      this.#line.append(mine, created.stat.czxid);
      listed = this.#line.members;
    } else if (crowded) {
      await this.#line.refresh(place.czxid, this.#request.hardDeadline);
      listed = this.#line.members;
      if (this.#line.listedZxid >= place.czxid) this.#line.seen = this.#seen(startedAt, created.stat.ctime);
    } else {
      listed = await (listing ?? this.#list(this.#session));
      // The directory was made after the listing had been sent.
      if (!listed.some(({ name }) => name === mine.name)) listed = await this.#list(this.#session);
      this.#line.seen = this.#seen(startedAt, created.stat.ctime);
    }
    const own = await this.#own(listed, mine.name);
    const lowest = own[0];
    if (lowest === undefined) return LOOK_AGAIN; // taken away in between
    if (lowest.name !== mine.name) return this.#adopt(listed, own);
    await this.#removeDuplicates(own);
    const seen = crowded ? undefined : this.#seen(startedAt, created.stat.ctime);
    return this.#placed(place, this.#admitted(listed, mine), seen);
  }

  #placed(place: Place, first: boolean, seen: SeenDirectory | undefined, alreadyHeld = false): Joined {
    return { how: 'placed', place, first, alreadyHeld, expiresAt: this.#expiresAt, seen };
  }

  /** Whether the number of a new place is the one after that of the last who is known: then nobody stands between, and the line is known. */
  #follows({ sequence }: Contender, { ctime }: Stat): boolean {
    const { guids } = this.#request;
    const { members, seen } = this.#line;
    const last = members.at(-1);
    if (this.#kind !== 'lock' || guids.create !== 'own' || last === undefined) return false;
    return proves({ sequence: last.sequence, seen }, { sequence, ctime });
  }

  #seen(since: number, ensembleSince: number): SeenDirectory | undefined {
    const { directory } = this.#line;
    return directory === undefined ? undefined : { directory, since, ensembleSince };
  }

  /** Takes over the lowest of my nodes, which an earlier attempt made. */
  async #adopt(listed: readonly Contender[], own: readonly Contender[]): Promise<Joined | typeof LOOK_AGAIN> {
    const mine = own[0] as Contender;
    const { mode, name, permits } = this.#request;
    const kind = this.#kind;
    if (!mine.name.includes(`-${prefixOf(kind, mode, permits?.count)}`)) {
      // Mine was made before the listing was known; whatever the caller wants kept, it is not this.
      if (!(await this.#removeDuplicates(own))) return LOOK_AGAIN;
      this.#trace.wrote = false;
      throw new PosternError(
        'conflict',
        `"${name}" is held, or waited for, ${permits === undefined ? 'in another mode' : 'with another count'} under this requestId.`,
      );
    }
    // What is there is to be counted by the limit that is agreed on, whatever this request says.
    await this.agrees();
    const path = `${this.#line.path}/${mine.name}`;
    const { hardDeadline } = this.#request;
    try {
      const node = await this.#session.getData(path, hardDeadline);
      const before = decodeRecord(node.data);
      if (before?.ending === true) throw new LeaseExpiredError();
      const first = await this.#isFirst(listed, mine, before);
      // `granted` behind somebody else is what a crash between create and the write of `waiting` leaves.
      // (Not of a semaphore: there nothing is granted before its turn.)
      // Data that somebody has written over do not tell: what may have been answered as held stays held.
      const overwritten = isOverwritten(kind, path, node.data);
      const granted = ((first || permits !== undefined) && before?.state === 'granted') || (first && overwritten);
      if (overwritten && first) {
        const { namespace, leaseId } = this.#request.lease;
        const hold = { kind: this.#line.rule.kind as LineKind, namespace, name, path };
        await recordForeignRevoke(this.#context, hold, node.stat, leaseId, hardDeadline);
      }
      // What this very attempt wrote over a connection that was lost is no earlier grant; what it wrote over may have been one.
      if (granted && before?.attempt !== this.#trace.attempt) this.#trace.heldBefore = node.stat.czxid;
      const alreadyHeld = granted && this.#trace.heldBefore === node.stat.czxid;
      const grantedAt = granted ? (before?.grantedAt ?? node.stat.ctime) : this.#context.zooKeeperClock.now();
      // A leader changes its value by proclaiming: a campaign that is repeated late must not bring an old one back.
      const leads = kind === 'election' && granted && before !== undefined;
      const { data: asked, delayMs: wanted } = this.#record;
      const data = leads ? before.data : (asked ?? before?.data);
      // A hold keeps the delay that it was granted with; whether it has one is not changed without its mark.
      const delayMs = granted ? await delayOf(this.#session, path, node, hardDeadline) : wanted;
      const atOnce = first && permits === undefined && wanted === undefined && this.#line.directory?.delays !== true;
      const leaseToken = this.#record.leaseToken ?? before?.leaseToken;
      const kept: ContenderRecord = {
        ...this.#record,
        delayMs: delayMs === 0 ? undefined : delayMs,
        data,
        candidate: before?.candidate ?? this.#record.candidate,
        leaseToken,
      };
      const record = granted || atOnce ? withState(kept, 'granted', { grantedAt }) : this.#waiting(kept);
      const stat = await this.#session.setData(path, encodeRecord(record), node.stat.version, hardDeadline);
      this.#trace.wrote = true;
      this.#line.waiters.get(mine.name)?.supersede();
      await this.#removeDuplicates(own);
      const place = this.#place(mine, { path, stat }, record);
      return this.#placed(place, first || granted, undefined, alreadyHeld);
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return LOOK_AGAIN;
      throw error;
    }
  }

  /**
   * All of mine but the lowest, and only while the lowest exists: at no time am I without a place.
   * @returns false when one of them had gone, by whomever
   */
  async #removeDuplicates(own: readonly Contender[]): Promise<boolean> {
    const kept = `${this.#line.path}/${(own[0] as Contender).name}`;
    let all = true;
    for (const duplicate of own.slice(1)) {
      const path = `${this.#line.path}/${duplicate.name}`;
      const operations: MultiOperation[] = [
        { type: 'check', path: kept },
        { type: 'delete', path },
      ];
      const tail = deleteTail(path);
      const remove = (all: MultiOperation[]): Promise<unknown> => this.#session.multi(all, this.#request.hardDeadline);
      const removed = await unless(
        remove([...operations, ...tail]).catch((error: unknown) => {
          if (!isReason(error, 'NO_NODE') || error.failedIndex !== operations.length) throw error;
          return remove(operations); // somebody has removed the tail by hand
        }),
        'NO_NODE',
      );
      all &&= removed !== undefined;
    }
    return all;
  }

  /** @returns the directory too, if it was made with the node */
  async #createNode(
    record: ContenderRecord,
  ): Promise<{ created: Created; directory: Stat | undefined } | typeof LOOK_AGAIN> {
    const { guids, hardDeadline, mode, permits } = this.#request;
    const kind = this.#kind;
    const guid = guids.create === 'own' ? guids.own : (guids.shared as string);
    const path = `${this.#line.path}/${nodePrefix(guid, prefixOf(kind, mode, permits?.count))}`;
    const data = encodeRecord(record);
    const tail = kind === 'election' ? [createTail(this.#line.path, guid, record)] : [];
    const marks = lockDelaysOf(this.#line.path);
    let noMarks: MultiOperation[] | undefined;
    let delays = false;
    for (;;) {
      try {
        const created = await this.#createIn(path, data, tail);
        if (created !== undefined) return { created, directory: undefined };
      } catch (error) {
        if (isReason(error, 'BAD_VERSION')) {
          await this.#readAgreement(true);
          return LOOK_AGAIN;
        }
        if (!isReason(error, 'NO_NODE')) throw error;
        this.#line.agreed = undefined;
      }
      // In a line that never has delays there is nothing to exclude.
      noMarks ??=
        kind === 'lock' || kind === 'rwlock'
          ? [
              { type: 'create', path: marks },
              { type: 'delete', path: marks },
            ]
          : [];
      const directory =
        permits === undefined ? ownDirectory(delays) : encodeAgreement({ limit: permits.limit, high: permits.limit });
      try {
        // Directory and first child in one transaction: a lease that has ended leaves no empty directory behind (C13).
        const results = await this.#session.multi(
          [
            ...noMarks,
            { type: 'create', path: this.#line.path, data: directory },
            { type: 'create', path, data, mode: 'ephemeral-sequential' },
            ...tail,
          ],
          hardDeadline,
        );
        const [made, created] = results.slice(noMarks.length);
        if (made?.type === 'create' && created?.type === 'create') {
          const { czxid } = created.stat;
          if (permits !== undefined)
            this.#line.agree({ limit: permits.limit, high: permits.limit, version: 0, mzxid: czxid });
          return { created, directory: made.stat };
        }
      } catch (error) {
        if (isReason(error, 'NO_NODE')) {
          await this.#context.control.ensurePath(parentOf(this.#line.path), hardDeadline);
          if (noMarks.length > 0) await this.#context.control.ensurePath(parentOf(marks), hardDeadline);
        } else if (!isReason(error, 'NODE_EXISTS')) throw error;
        else if (noMarks.length > 0 && error.failedIndex === 0) {
          noMarks = [];
          delays = true;
        } else if (permits !== undefined) {
          await this.#readAgreement(true);
          return LOOK_AGAIN;
        }
      }
    }
  }

  /**
   * In a directory that is there; of a semaphore only while the limit is the one that was compared.
   * @returns undefined when it is not known that there is a directory
   */
  #createIn(path: string, data: Buffer, tail: readonly MultiOperation[]): Promise<Created | undefined> {
    const { hardDeadline, permits } = this.#request;
    if (tail.length === 0 && permits === undefined)
      return this.#session.create(path, data, { mode: 'ephemeral-sequential' }, hardDeadline);
    return this.#createWith(path, data, tail);
  }

  /** Together with what has to be made, or be so, with it. */
  async #createWith(path: string, data: Buffer, tail: readonly MultiOperation[]): Promise<Created | undefined> {
    const { hardDeadline } = this.#request;
    const mode = 'ephemeral-sequential';
    if (tail.length > 0) {
      const [created] = await this.#session.multi([{ type: 'create', path, data, mode }, ...tail], hardDeadline);
      return created?.type === 'create' ? created : undefined;
    }
    const { agreed } = this.#line;
    if (agreed === undefined) return undefined;
    const [, created] = await this.#session.multi(
      [
        { type: 'check', path: this.#line.path, version: agreed.version },
        { type: 'create', path, data, mode },
      ],
      hardDeadline,
    );
    return created?.type === 'create' ? created : undefined;
  }

  async #list(session: LeaseSession): Promise<Contender[]> {
    this.#context.metrics.lineListingsTotal.inc({ kind: this.#kind });
    const listing = await unless(session.getChildren(this.#line.path, this.#request.hardDeadline), 'NO_NODE');
    if (listing === undefined) return [];
    const line = sortLine(listing.children);
    this.#line.merge(line, listing.zxid, listing.stat);
    return line;
  }

  /** My nodes in a listing, lowest first. `created` is known to be mine. */
  async #own(listed: readonly Contender[], created?: string): Promise<Contender[]> {
    const { guids, lease, hardDeadline } = this.#request;
    const own: Contender[] = [];
    for (const contender of listed) {
      // A line may be long: the names of others are not taken apart.
      if (!isNamed(contender.name, guids.own) && (guids.shared === undefined || !isNamed(contender.name, guids.shared)))
        continue;
      const guid = guidOf(contender.name);
      if (guid === undefined) continue;
      if (contender.name === created || guid === guids.own) {
        own.push(contender);
      } else if (guid === guids.shared) {
        const node = await unless(
          this.#session.getData(`${this.#line.path}/${contender.name}`, hardDeadline),
          'NO_NODE',
        );
        if (node !== undefined && node.stat.ephemeralOwner === lease.sessionId) own.push(contender);
      }
    }
    return own;
  }

  /**
   * Whether the turn of a place that was found has come. What was listed earlier, or put together from that, may still show somebody who has gone: one that is
   * `granted` had its turn before that was written, and one that will not wait for its turn is to be told of it now. Listed in the same session after the
   * node was read, it cannot.
   */
  async #isFirst(listed: readonly Contender[], mine: Contender, found: ContenderRecord | undefined): Promise<boolean> {
    if (this.#admitted(listed, mine)) return true;
    const { permits, waitMs } = this.#request;
    if (permits !== undefined || (found?.state !== 'granted' && waitMs > 0)) return false;
    return this.#admitted(await this.#list(this.#session), mine);
  }

  #admitted(listed: readonly Contender[], mine: Contender): boolean {
    const index = listed.findIndex(({ name }) => name === mine.name);
    return index < this.#line.rule.admitted(listed);
  }

  #waiting(record: ContenderRecord): ContenderRecord {
    if (this.#request.stays === true) return withState(record, 'waiting', {});
    const waitUntil = Math.round(this.#context.zooKeeperClock.now() + this.#request.waitMs);
    return withState(record, 'waiting', { waitUntil });
  }

  #place(contender: Contender, { stat }: Created, record: ContenderRecord): Place {
    return new Place(this.#context.control, this.#context.cleanup, this.#line.path, contender, stat, record);
  }
}
