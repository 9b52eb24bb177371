/**
 * The claims of one turn, in the order in which their messages were handed out.
 *
 * They are made at the same time, each by the session of its lease, so a later one may be done while an earlier one fails, or never gets
 * through: its server is dead, its lease has ended. Then the message behind would be delivered before the one in front. So
 * a claim that follows one of which nothing is known yet checks the delivery record that the other one writes, in its own transaction:
 *
 *   check passes      the one in front was made
 *   check fails       it is not there yet (or was acknowledged already): once it is known to be made, again without the check;
 *                     when it was not made, neither is this one, and all messages go back to be handed out anew
 *
 *   undecided ──made, or cannot be any more──▶ taken | not taken
 *
 * Of one that stays undecided for long the turn's node is deleted, which its transaction checks: then it was made before that, which its claim's
 * node shows, or it never will be (`dispatcher.ts`).
 */
import { randomId } from '../../random.js';
import { recordPath, type Entry } from './entry.js';

export class ClaimOrder {
  readonly #onDecided: () => void;
  readonly #undecided = new Set<Ticket>();
  #last: Ticket | undefined;
  #broken = false;

  /** @param onDecided called each time that one more is decided */
  constructor(onDecided: () => void) {
    this.#onDecided = onDecided;
  }

  get undecided(): number {
    return this.#undecided.size;
  }

  /** One was not made, and there are some of which it is not known yet: until it is, nothing more may be handed out. */
  get broken(): boolean {
    return this.#broken;
  }

  /**
   * The next claim, behind all that were begun.
   * @param first of the messages that it is for
   * @param fence the node of the turn
   */
  begin(first: Entry, fence: string): Ticket {
    const before = this.#last?.known === undefined ? this.#last : undefined;
    const ticket = new Ticket(first, fence, before, (taken) => {
      this.#undecided.delete(ticket);
      if (!taken) this.#broken = true;
      if (this.#undecided.size === 0) this.#broken = false;
      this.#onDecided();
    });
    this.#undecided.add(ticket);
    this.#last = ticket;
    return ticket;
  }

  /** When the first one is late: all of which nothing is known. */
  get late(): Ticket[] {
    const [first] = this.#undecided;
    return first?.late === true ? [...this.#undecided] : [];
  }
}

/** One claim of one or several messages. */
export class Ticket {
  /** Finds the claim again when the reply was lost. */
  readonly attempt = randomId(8, 'base64url');
  /** It was waited for long enough. */
  late = false;
  /** The message's node. */
  readonly path: string;
  /** The node of the turn. */
  readonly fence: string;
  /** What the claim writes first: the delivery record, and the version that it has then. */
  readonly record: { path: string; version: number };
  /** The one in front, when nothing was known of it as this one was begun. */
  readonly before: Ticket | undefined;
  /** Resolves when it is decided. */
  readonly taken: Promise<boolean>;
  known: boolean | undefined;
  readonly #onDecided: (taken: boolean) => void;
  #resolve!: (taken: boolean) => void;

  constructor(first: Entry, fence: string, before: Ticket | undefined, onDecided: (taken: boolean) => void) {
    this.path = first.path;
    this.fence = fence;
    this.record = { path: recordPath(first.path), version: (first.claims ?? -1) + 1 };
    this.before = before;
    this.#onDecided = onDecided;
    this.taken = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** The first word counts. */
  decide(taken: boolean): void {
    if (this.known !== undefined) return;
    this.known = taken;
    this.#onDecided(taken);
    this.#resolve(taken);
  }
}
