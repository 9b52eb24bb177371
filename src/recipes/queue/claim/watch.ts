/**
 * Claimed messages, as seen by a replica that takes from the queue: notices when a claim ends, and ends claims whose
 * time (`claimMs`) is over.
 *
 * Most claims are acknowledged within milliseconds; a watch for each would cost two more requests per message. So a
 * claim is checked once it is a little old, or before somebody is told that there is nothing to take, and watched from
 * then on. The messages of a lease that ended return to their places that much later.
 *
 * An expired claim is deleted together with a check of the delivery record at the version read just before: exactly
 * that claim, and only if nobody has prolonged it. Any replica may do so; it does no harm if several try, or none does
 * for a while.
 */
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { isReason, isTransient, zooKeeperReason } from '../../../zookeeper/errors.js';
import { claimPath, decodeClaim, recordPath, type Entry } from './entry.js';

/** A claim that is older is watched. Also how late the end of a claim may be noticed. */
const WATCH_AFTER_MS = 100;
const TICK_MS = 50;
const LOOKS_AT_ONCE = 256;
const REQUEST_MS = 5_000;

export interface ClaimWatchOptions {
  control: ControlSession;
  /** Epoch ms on the ensemble's clock. */
  now: () => number;
  /** The claim has ended: the message is free again, or gone. */
  onEnded: (entry: Entry) => void;
  onExpired: () => void;
}

export class ClaimWatch {
  readonly #options: ClaimWatchOptions;
  readonly #claimed = new Map<string, Entry>();
  #timer: NodeJS.Timeout | undefined;
  #ticking = false;

  constructor(options: ClaimWatchOptions) {
    this.#options = options;
  }

  add(entry: Entry): void {
    this.#claimed.set(entry.path, entry);
    this.#timer ??= setInterval(() => void this.#tick(), TICK_MS).unref();
  }

  /**
   * What this replica itself has done with a claimed message.
   * @returns it, if it is known here
   */
  settled(path: string, how: 'gone' | 'free'): Entry | undefined {
    const entry = this.#claimed.get(path);
    if (entry === undefined) return undefined;
    this.#remove(entry);
    if (how === 'gone') entry.state = 'gone';
    else this.#options.onEnded(entry);
    return entry;
  }

  /** Looks at all that no watch tells of: before somebody who does not wait is told that there is nothing. */
  async lookAtAll(deadline: number): Promise<void> {
    const now = this.#options.now();
    const open = [...this.#claimed.values()].filter(
      ({ watch, until }) => watch === undefined || (until ?? Infinity) <= now,
    );
    for (let i = 0; i < open.length; i += LOOKS_AT_ONCE) {
      const batch = open.slice(i, i + LOOKS_AT_ONCE);
      const { results } = await this.#options.control.multiRead(
        batch.map(({ path }) => ({ type: 'getData', path: claimPath(path) })),
        deadline,
      );
      for (const [j, result] of results.entries()) {
        const entry = batch[j] as Entry;
        if (!('data' in result)) this.#ended(entry);
        else if ((decodeClaim(result.data)?.until ?? Infinity) <= now && (await endOverdue(entry, this.#options)))
          this.#ended(entry);
      }
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const entry of this.#claimed.values()) entry.watch?.cancel();
    this.#claimed.clear();
  }

  async #tick(): Promise<void> {
    if (this.#ticking) return;
    this.#ticking = true;
    try {
      const old = performance.now() - WATCH_AFTER_MS;
      const now = this.#options.now();
      const due: Entry[] = [];
      for (const entry of this.#claimed.values()) {
        if (due.length >= LOOKS_AT_ONCE) break;
        if (entry.state !== 'claimed') this.#remove(entry);
        else if ((entry.watch === undefined && entry.claimedAt <= old) || (entry.until ?? Infinity) <= now)
          due.push(entry);
      }
      await Promise.all(due.map((entry) => this.#look(entry)));
    } catch (error) {
      if (!isTransient(error)) throw error; // the next tick tries again
    } finally {
      this.#ticking = false;
      if (this.#claimed.size === 0) {
        clearInterval(this.#timer);
        this.#timer = undefined;
      }
    }
  }

  async #look(entry: Entry): Promise<void> {
    if ((entry.until ?? Infinity) <= this.#options.now() && (await endOverdue(entry, this.#options)))
      return this.#ended(entry);
    if (entry.watch !== undefined) return;
    const { control } = this.#options;
    let fired = false;
    const { value, watch } = await control.watches.getData(
      claimPath(entry.path),
      () => {
        fired = true;
        entry.watch = undefined;
        // Gone, or prolonged: it is read anew before anything behind it is handed out, which tells.
        this.#ended(entry);
      },
      performance.now() + REQUEST_MS,
    );
    if (value === undefined) return this.#ended(entry);
    entry.until = decodeClaim(value.data)?.until;
    // Two looks may cross: one at the end of a claim, one at the next claim of the same message. And who lists anew
    // leaves what it had listed before, while this was read.
    if (fired || entry.state !== 'claimed' || this.#claimed.get(entry.path) !== entry || isWatched(entry))
      watch?.cancel();
    else entry.watch = watch;
  }

  #ended(entry: Entry): void {
    if (this.#claimed.get(entry.path) !== entry) return;
    this.#remove(entry);
    if (entry.state === 'claimed') this.#options.onEnded(entry);
  }

  #remove(entry: Entry): void {
    this.#claimed.delete(entry.path);
    entry.watch?.cancel();
    entry.watch = undefined;
  }
}

/**
 * Ends the claim of a message whose time is over.
 * @returns whether the claim has ended; not, when it was prolonged
 */
export async function endOverdue(
  entry: Entry,
  { control, now, onExpired }: Pick<ClaimWatchOptions, 'control' | 'now' | 'onExpired'>,
): Promise<boolean> {
  const deadline = performance.now() + REQUEST_MS;
  const [record, claim] = [recordPath(entry.path), claimPath(entry.path)];
  const { results } = await control.multiRead(
    [
      { type: 'getData', path: record },
      { type: 'getData', path: claim },
    ],
    deadline,
  );
  const [recordNode, claimNode] = results;
  if (recordNode === undefined || claimNode === undefined || !('data' in recordNode) || !('data' in claimNode))
    return claimNode !== undefined && 'error' in claimNode && zooKeeperReason(claimNode.error) === 'NO_NODE';
  entry.until = decodeClaim(claimNode.data)?.until;
  if (entry.until === undefined || entry.until > now()) return false;
  try {
    await control.multi(
      [
        { type: 'check', path: record, version: recordNode.stat.version },
        { type: 'delete', path: claim, version: claimNode.stat.version },
      ],
      deadline,
    );
    onExpired();
    return true;
  } catch (error) {
    if (isReason(error, 'BAD_VERSION')) return false;
    if (isReason(error, 'NO_NODE')) return true;
    throw error;
  }
}

function isWatched({ watch }: Entry): boolean {
  return watch !== undefined;
}
