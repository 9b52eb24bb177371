/**
 * Bounds what a session owns, so that its end does no harm.
 *
 * The end of a session is one transaction that lists the paths of all its ephemeral nodes. One longer than a server can
 * read (twice `jute.maxbuffer`: 2 MiB by default) is written nevertheless, and then no server of the ensemble can read
 * its own log (ZOOKEEPER-4306). So every creation of an ephemeral node asks here first, and is refused beyond a limit.
 *
 * The count is an upper bound: what the session owned at the last reading, and everything sent since. Only when the
 * bound reaches a limit is the truth read again, at most ten times a second. So deletions, by whichever session, need
 * not be reported, and asking costs a comparison.
 *
 * Several replicas may use a lease at once, each with a count of its own. The sum is bounded nevertheless, because a
 * session is attached at one of them at a time: each attach begins with a reading behind a `sync`, which sees
 * everything created through the previous one, and from the attach on the ensemble refuses whatever that one may still
 * send (SESSION_MOVED). If both connections are to the same server, it closes the earlier one; what it had read from it
 * by then may still be done behind the reading, so the sum may exceed a limit by what was on its way at that moment.
 */
import { pause } from '../../time.js';
import { byDeadline } from '../by-deadline.js';

/** The limits: nodes of two classes, and the bytes of all paths. */
const LIMITS = ['holds', 'claims', 'pathBytes'] as const;
export type OwnedLimit = (typeof LIMITS)[number];
export type OwnedCounts = Record<OwnedLimit, number>;

export interface OwnedRules {
  readonly limits: Readonly<OwnedCounts>;
  /**
   * The class in which a node with this path counts, besides its bytes; undefined: none, and it may use the reserve of
   * bytes.
   */
  classOf(path: string): 'holds' | 'claims' | undefined;
  /** The error for exceeding a limit. */
  refusal(limit: OwnedLimit): Error;
}

export interface NewNode {
  /** The full path. */
  path: string;
  /** A sequence number will be appended. */
  sequential: boolean;
}

/** Each path in the transaction is preceded by its length. */
const LENGTH_BYTES = 4;
const SEQUENCE_DIGITS = 10;
/** Reserve for nodes such as those that give claims back, when holds and claims have used up the bytes. */
const RESERVE = 1.1;
const READ_EVERY_MS = 100;
const READ_WITHIN_MS = 10_000;

export class OwnedNodes {
  readonly #rules: OwnedRules;
  /** Reads the full paths of all that the session owns, as new as any earlier write. */
  readonly #read: (deadline: number) => Promise<readonly string[]>;
  /** Upper bound of what is owned: the last reading, and everything sent since. */
  #owned: OwnedCounts = nothing();
  /** Everything sent since the last reading was sent. */
  #sent: OwnedCounts = nothing();
  #known: boolean;
  #reading: Promise<void> | undefined;
  /** When the last answered reading was sent, monotonic. */
  #readAt = -Infinity;

  /** @param fresh the session is new and owns nothing */
  constructor(rules: OwnedRules, fresh: boolean, read: (deadline: number) => Promise<readonly string[]>) {
    this.#rules = rules;
    this.#known = fresh;
    this.#read = read;
  }

  /**
   * Counts nodes about to be created; they must be sent at once.
   * @param askedAt when this was first asked for, monotonic: a refusal needs a newer reading
   * @param deadline of the wait, monotonic
   * @param replaced paths of nodes of the session that are deleted in the same transaction; only those that are of a
   *   class are sure to be its own, and count
   * @returns undefined if they may be created; else what to wait for before asking again
   * @throws the rules' refusal beyond a limit
   */
  reserve(
    nodes: readonly NewNode[],
    askedAt: number,
    deadline: number,
    replaced: readonly string[] = [],
  ): Promise<void> | undefined {
    if (!this.#known) return this.#readAnew(deadline);
    const { limits } = this.#rules;
    const more = this.#more(nodes, replaced);
    const bytes = limits.pathBytes * (more.holds + more.claims > 0 ? 1 : RESERVE);
    const over = LIMITS.find(
      (limit) => more[limit] > 0 && this.#owned[limit] + more[limit] > (limit === 'pathBytes' ? bytes : limits[limit]),
    );
    if (over === undefined) {
      add(this.#owned, more);
      add(this.#sent, more);
      return undefined;
    }
    if (this.#readAt >= askedAt) throw this.#rules.refusal(over);
    return this.#readAnew(deadline);
  }

  /**
   * How many more nodes of one class may be created.
   * @param path a typical one, for its length
   * @param wanted upper bound of the result
   * @returns at least 1
   * @throws the rules' refusal if there is room for none
   */
  async room(kind: 'holds' | 'claims', path: string, wanted: number, deadline: number): Promise<number> {
    const askedAt = performance.now();
    for (;;) {
      const { limits } = this.#rules;
      const nodes = limits[kind] - this.#owned[kind];
      const bytes = Math.floor((limits.pathBytes - this.#owned.pathBytes) / bytesOf(path));
      const room = this.#known ? Math.min(nodes, bytes) : 0;
      if (room >= wanted) return wanted;
      if (this.#readAt >= askedAt) {
        if (room > 0) return room;
        throw this.#rules.refusal(nodes <= bytes ? kind : 'pathBytes');
      }
      await this.#readAnew(deadline);
    }
  }

  /** How much more there is at most once the transaction is done, or refused. */
  #more(nodes: readonly NewNode[], replaced: readonly string[]): OwnedCounts {
    const [more, less] = [nothing(), nothing()];
    for (const { path, sequential } of nodes) {
      this.#count(more, path);
      if (sequential) more.pathBytes += SEQUENCE_DIGITS;
    }
    for (const path of replaced) if (this.#rules.classOf(path) !== undefined) this.#count(less, path);
    for (const limit of LIMITS) more[limit] = Math.max(0, more[limit] - less[limit]);
    return more;
  }

  #readAnew(deadline: number): Promise<void> {
    this.#reading ??= this.#readLater().finally(() => (this.#reading = undefined));
    return byDeadline(this.#reading, deadline, 'the reading of what the session owns');
  }

  async #readLater(): Promise<void> {
    const early = this.#readAt + READ_EVERY_MS - performance.now();
    if (early > 0) await pause(early);
    const begun = performance.now();
    // A session's requests are answered in order: nodes sent from here on are not in the answer, and all others are.
    const sent = (this.#sent = nothing());
    const owned = nothing();
    for (const path of await this.#read(begun + READ_WITHIN_MS)) this.#count(owned, path);
    add(owned, sent);
    this.#owned = owned;
    this.#known = true;
    this.#readAt = begun;
  }

  #count(counts: OwnedCounts, path: string): void {
    const kind = this.#rules.classOf(path);
    if (kind !== undefined) counts[kind] += 1;
    counts.pathBytes += bytesOf(path);
  }
}

function nothing(): OwnedCounts {
  return { holds: 0, claims: 0, pathBytes: 0 };
}

function add(counts: OwnedCounts, more: Readonly<OwnedCounts>): void {
  for (const limit of LIMITS) counts[limit] += more[limit];
}

function bytesOf(path: string): number {
  return Buffer.byteLength(path) + LENGTH_BYTES;
}
