/**
 * Keeps the claims of one turn in the order in which their messages were handed out.
 *
 * Claims are made concurrently, each by the session of its lease. So a later one may succeed while an earlier one fails
 * or never gets through, because its server is dead or its lease has ended; then the later message would be delivered
 * before the earlier one. So a claim whose predecessor is still undecided checks, in its own transaction, the delivery
 * record that the predecessor writes:
 *
 *   check passes      the predecessor was made
 *   check fails       it is not there yet, or was acknowledged already: once it is known to be made, the claim is tried
 *                     again without the check; if it was not made, neither is this one, and all messages go back to be
 *                     handed out again
 *
 *   undecided ──made, or can never be made──▶ taken | not taken
 *
 * If a claim stays undecided for long, the turn's node, which its transaction checks, is deleted. Then either it was
 * made before that, and its node shows it, or it never will be (`dispatcher.ts`).
 */
import { randomId } from '../../../random.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { claimPath, decodeClaim, recordPath, type Entry } from './entry.js';

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
   * @param unchanged refuses it once the queue is not what it was when this was decided on
   * @param fence the node of the turn
   */
  begin(first: Entry, unchanged: MultiOperation, fence: string): Ticket {
    const before = this.#last?.known === undefined ? this.#last : undefined;
    const ticket = new Ticket(first, unchanged, fence, before, (taken) => {
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
  /** The queue, as it was when this was decided on. */
  readonly unchanged: MultiOperation;
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

  constructor(
    first: Entry,
    unchanged: MultiOperation,
    fence: string,
    before: Ticket | undefined,
    onDecided: (taken: boolean) => void,
  ) {
    this.path = first.path;
    this.unchanged = unchanged;
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

/**
 * Decides claims by their nodes, now that those of their turns are gone.
 * @param data the queue's data directory
 */
export async function decideLate(
  control: ControlSession,
  data: string,
  late: readonly Ticket[],
  deadline: number,
): Promise<void> {
  await control.sync(data, deadline);
  const { results } = await control.multiRead(
    late.map(({ path }) => ({ type: 'getData', path: claimPath(path) })),
    deadline,
  );
  for (const [i, result] of results.entries()) {
    const ticket = late[i] as Ticket;
    ticket.decide('data' in result && decodeClaim(result.data)?.a === ticket.attempt);
  }
}
