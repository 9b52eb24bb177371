/**
 * Observes the round of a double barrier, for members that enter or leave, for long polls and for event streams
 * (`observing/observers.ts`). One watch at a time per barrier and replica:
 *
 *   no `ready` ─────────────▶ watched for it to appear: one notification tells all who have entered
 *   `ready`, first of all ──▶ it is watched for its end: when members leave one after the other, the last one ends the
 *     │                       round, and one notification tells all who have left
 *     └─ a while later ─────▶ a member of the round that is still there is watched instead: if it died, nobody else
 *                             would end the round
 *
 * So entering costs each replica one notification, and so does leaving, whether the last one leaves or dies; plus one
 * for each watched member that went while others were still there. No listing, and no watch per member.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { Observers, type Look, type LookResult, type Observed, type Subject } from '../observing/observers.js';
import { etagOfRound, READY, type Round } from './round.js';
import type { Rounds } from './rounds.js';

export interface RoundState extends Observed {
  round: Round | undefined;
  /** How new the server's state was that this was read from. */
  zxid: number;
}

/**
 * Members that leave together do so within this time of each other; after that it is worth a watch to wait for one by
 * name.
 */
const STRAGGLES_MS = 300;

export type RoundObservers = Observers<Subject, RoundState>;

/** Of all double barriers of one replica. Every look that finds no round is published, for those who wait (C2). */
export function roundObservers(control: ControlSession, rounds: Rounds): RoundObservers {
  return new Observers(control, ({ path }, look) => new RoundLook(control, rounds, path, look).run());
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
    const zk = this.#control.until(performance.now() + READ_MS);
    for (;;) {
      const witness = await this.#rounds.witness(zk, this.#directory, round);
      if (witness === undefined) return false;
      // A child watch on an ephemeral node fires once, when it goes: see `line/blockers.ts`.
      const watched = await this.#control.watches.getChildren(`${this.#directory}/${witness}`, fire, zk.deadline);
      this.#look.keep(watched.watch);
      if (watched.value !== undefined && watched.value.stat.czxid < round.czxid) return true;
    }
  }

  #publish(round: Round | undefined, zxid: number): void {
    this.#look.publish({ round, zxid, etag: etagOfRound(round), moment: round === undefined ? zxid : 0 });
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
