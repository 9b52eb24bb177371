/**
 * Holds that this replica granted: a cache that saves a read, and proves two things where it has an entry.
 *
 * - This path was the head of its line, with this czxid, when it was granted; the head stays the head while it exists.
 *   So a release here may hand over to whoever stands directly behind (protocol T6).
 * - This path with this czxid belongs to this lease. So its release by holdId needs no read.
 *
 * An entry is believed for far less time than an unused directory is kept, so that a sequence number that began
 * anew is never taken for the old one (protocol C10).
 */
import { LruMap } from '../../lru-map.js';
import { MINUTE } from '../../time.js';
import type { SeenDirectory } from './directory.js';

export interface GrantedHold {
  leaseId: string;
  czxid: number;
  /** Monotonic. */
  grantedAt: number;
  /** Whether the path cannot be used again in the meantime. */
  lasting: boolean;
  /** Whether it has a lock-delay, and so a mark (`delay/mark.ts`). */
  marked: boolean;
  /** That the node got with the grant: whoever writes to it later, another replica say, knows more of it. */
  version: number | undefined;
  /** The directory as it was seen when the place was taken, where it was. */
  seen: SeenDirectory | undefined;
}

const REMEMBERED_MAX = 50_000;
const BELIEVED_MS = 10 * MINUTE;
/** What was released is asked for by streams that look at their lease now and then. */
const RELEASED_KEPT_MS = 5 * MINUTE;

export class GrantedHolds {
  readonly #holds = new LruMap<string, GrantedHold>(REMEMBERED_MAX, BELIEVED_MS);
  readonly #released = new LruMap<string, { czxid: number | undefined }>(REMEMBERED_MAX, RELEASED_KEPT_MS);
  /** By lease. */
  readonly #listeners = new Map<string, Set<() => void>>();

  /** @param lasting the directory is ours, and not one that the server removes as soon as it is empty */
  remember(
    path: string,
    leaseId: string,
    czxid: number,
    lasting: boolean,
    { marked = false, version, seen }: Partial<Pick<GrantedHold, 'marked' | 'version' | 'seen'>> = {},
  ): void {
    this.#holds.set(path, { leaseId, czxid, grantedAt: performance.now(), lasting, marked, version, seen });
    this.announce(leaseId);
  }

  /**
   * The hold was released, or given back, through this replica, whichever granted it: only then its czxid may be
   * unknown.
   */
  forget(path: string, leaseId: string): void {
    const czxid = this.#holds.get(path)?.czxid;
    this.#holds.delete(path);
    this.#released.set(path, { czxid });
    this.announce(leaseId);
  }

  /** Something else about the lease has changed: whoever listens looks at it anew. */
  announce(leaseId: string): void {
    const listeners = this.#listeners.get(leaseId);
    if (listeners !== undefined) for (const listener of [...listeners]) listener();
  }

  wasReleased(path: string, czxid: number): boolean {
    const released = this.#released.get(path);
    return released !== undefined && (released.czxid === undefined || released.czxid === czxid);
  }

  find(path: string, leaseId: string, czxid: number): GrantedHold | undefined {
    const hold = this.#holds.get(path);
    if (hold === undefined || hold.leaseId !== leaseId || hold.czxid !== czxid) return undefined;
    return hold.lasting && performance.now() - hold.grantedAt < BELIEVED_MS ? hold : undefined;
  }

  /**
   * Calls `listener` when something was granted to the lease or released by it here, until the returned function is
   * called.
   */
  onChange(leaseId: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(leaseId) ?? new Set();
    this.#listeners.set(leaseId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(leaseId) === listeners) this.#listeners.delete(leaseId);
    };
  }
}
