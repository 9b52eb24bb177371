/**
 * Watching the round of a double barrier, for those who enter or leave, for long polls and for event streams (`observers.ts`). One watch
 * at a time per barrier and replica:
 *
 *   no `ready` ─────────────▶ watched for it to appear: one notification tells all who have entered
 *   `ready`, first of all ──▶ it is watched for its end: when all leave one after the other, who was last ends the round, and one
 *     │                       notification tells all who have left
 *     └─ a while later ─────▶ somebody of the round who is still there is watched in its place: should that one die, nobody else would end the round
 *
 * So entering costs each replica one notification, and leaving one, whether the last one leaves or dies; one more for each
 * member that was watched and went while others were still there. No listing, and no watch per member.
 */
import type { ControlSession } from '../zookeeper/control-session.js';
import { Observers, type Look, type LookResult, type Observed } from './observers.js';
import { READY, type Round } from './round.js';
import type { Rounds } from './rounds.js';

export interface RoundState extends Observed {
  round: Round | undefined;
  /** How new the server's state was that this was read from. */
  zxid: number;
}

/** Who leaves with the others does so within this time of the one before; then it is worth a watch to wait for one by name. */
const STRAGGLES_MS = 300;

/** Of all double barriers of one replica. */
export class RoundObservers {
  readonly #observers: Observers<undefined, RoundState>;

  constructor(control: ControlSession, rounds: Rounds) {
    this.#observers = new Observers(control, (directory, _, look) =>
      new RoundLook(control, rounds, directory, look).run(),
    );
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the state as soon as it is known, and with every change, until the returned function is called. */
  subscribe(directory: string, subscriber: (state: RoundState) => void): () => void {
    return this.#observers.subscribe(directory, undefined, subscriber);
  }

  /** Resolves with the first state that is wanted, or undefined at the deadline or when the signal is aborted. */
  until(
    directory: string,
    wanted: (state: RoundState) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<RoundState | undefined> {
    return this.#observers.until(directory, undefined, wanted, deadline, signal);
  }
}

class RoundLook {
  readonly #control: ControlSession;
  readonly #rounds: Rounds;
  readonly #directory: string;
  readonly #look: Look<RoundState>;

  constructor(control: ControlSession, rounds: Rounds, directory: string, look: Look<RoundState>) {
    this.#control = control;
    this.#rounds = rounds;
    this.#directory = directory;
    this.#look = look;
  }

  async run(): Promise<LookResult> {
    const { watches } = this.#control;
    const { wake, deadline, signal } = this.#look;
    const path = `${this.#directory}/${READY}`;
    const event = new Waking();
    const present = await watches.getData(path, event.fire, deadline);
    this.#look.keep(present.watch);
    if (present.value === undefined) {
      this.#publish(undefined, present.zxid);
      const absent = await watches.exists(path, wake, deadline);
      this.#look.keep(absent.watch);
      return absent.value === undefined ? 'wait' : 'again';
    }
    const round = this.#rounds.remember(this.#directory, present.value);
    this.#publish(round, present.zxid);
    // Somebody waits for the end of the round, or has not left the observer yet.
    await event.firedOr(signal, STRAGGLES_MS);
    if (event.isFired || signal.aborted) return 'again';
    const straggler = await this.#watchStraggler(round, event.fire);
    if (straggler) {
      present.watch?.cancel();
      await event.firedOr(signal);
      if (signal.aborted) return 'again';
    }
    await this.#rounds.isOver(this.#directory, round); // ends it
    return 'again';
  }

  /** @returns false when nobody of the round is there */
  async #watchStraggler(round: Round, fire: () => void): Promise<boolean> {
    const deadline = performance.now() + READ_MS;
    for (;;) {
      const witness = await this.#rounds.witness(this.#directory, round, deadline);
      if (witness === undefined) return false;
      // A child watch on an ephemeral node fires once, when it goes: see `line-waiter.ts`.
      const watched = await this.#control.watches.getChildren(`${this.#directory}/${witness}`, fire, deadline);
      this.#look.keep(watched.watch);
      if (watched.value !== undefined && watched.value.stat.czxid < round.czxid) return true;
    }
  }

  #publish(round: Round | undefined, zxid: number): void {
    this.#look.publish({ round, zxid, etag: round === undefined ? `none ${zxid}` : String(round.czxid) });
  }
}

const READ_MS = 10_000;

/** Something that happens once. */
class Waking {
  isFired = false;
  readonly #fired: Promise<void>;
  #resolve: () => void = () => undefined;

  constructor() {
    this.#fired = new Promise((resolve) => (this.#resolve = resolve));
  }

  readonly fire = (): void => {
    this.isFired = true;
    this.#resolve();
  };

  /** Until then, or until the signal is aborted or so many ms have passed. */
  async firedOr(signal: AbortSignal, withinMs?: number): Promise<void> {
    let stop = (): void => undefined;
    const stopped = new Promise<void>((resolve) => (stop = resolve));
    const timer = withinMs === undefined ? undefined : setTimeout(stop, withinMs);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    await Promise.race([this.#fired, stopped]);
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}
