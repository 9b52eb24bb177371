/**
 * Decides whose turn it is in the room of a lock by priority (`lock/priority.ts`): one instance for all waiting
 * requests of this replica for one name.
 *
 * Of these only the first can be the next. While others stand in the room before it, the nearest of them is watched;
 * once none does, the last who stands in the line. So of a crowd in one replica there is one watch, and the end of a
 * hold costs each replica at most one notification and a few reads, however many wait.
 *
 *   first of mine ─▶ list room and line ─▶ somebody is before it: watch that one ──gone──▶ list again
 *                                      └─▶ nobody is: it is told, and takes its turn
 *
 * Those who come to stand before it meanwhile are seen when it lists again, before it is told anything.
 *
 * What can go wrong:
 * - Its turn cannot be taken after all (`not-yet`): somebody came before it, so it lists again.
 * - The control session is replaced: the watch says `reset`, and it lists again.
 * - Whoever is first in the line, or in the room while nobody stands in the line, is abandoned (C3): looked for every
 *   5 s, up to the first who is not.
 */
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { ServerClock } from '../../../zookeeper/server-clock.js';
import type { Watch } from '../../../zookeeper/watch.js';
import { ABANDONED_CHECK_MS, removeIfAbandoned } from '../abandoned.js';
import { sortLine, type Contender } from '../contender.js';
import type { Line, Turns, Waiter } from '../line.js';
import { Rounds } from '../../waiting/rounds.js';

interface TurnsContext {
  control: ControlSession;
  zooKeeperClock: ServerClock;
}

interface Standing {
  directory: string;
  contender: Contender;
}

const REQUEST_MS = 10_000;

export class RoomTurns implements Turns {
  readonly #context: TurnsContext;
  readonly #room: Line;
  /** The directory of the line. */
  readonly #line: string;
  /** For whom the watch is set, or who was told. */
  #first: Waiter | undefined;
  #watch: Watch | undefined;
  readonly #rounds = new Rounds(() => this.#turn());
  #check: NodeJS.Timeout | undefined;

  constructor(context: TurnsContext, room: Line, line: string) {
    this.#context = context;
    this.#room = room;
    this.#line = line;
  }

  look(): void {
    if (this.#firstOfMine() !== this.#first) this.changed();
  }

  changed(): void {
    this.#rounds.again();
  }

  defer(waiter: Waiter): void {
    if (waiter === this.#first) this.changed();
  }

  leave(waiter: Waiter): void {
    if (waiter === this.#first || this.#room.waiters.size === 0) this.changed();
  }

  async #turn(): Promise<void> {
    this.#watch?.cancel();
    this.#watch = undefined;
    const first = (this.#first = this.#firstOfMine());
    if (first === undefined) {
      clearTimeout(this.#check);
      this.#check = undefined;
      return;
    }
    this.#check ??= setTimeout(() => void this.#checkAbandoned(), ABANDONED_CHECK_MS);
    const { room, line } = await this.#list();
    const index = room.findIndex(({ name }) => name === first.place.name);
    if (index === -1) return first.giveUp();
    const before = room[index - 1];
    const last = line.at(-1);
    if (before !== undefined) return this.#await({ directory: this.#room.path, contender: before });
    if (last !== undefined) return this.#await({ directory: this.#line, contender: last });
    first.turn();
  }

  /** Until it is gone. */
  async #await({ directory, contender }: Standing): Promise<void> {
    const { watches } = this.#context.control;
    let fired = false;
    const listener = (): void => {
      fired = true;
      this.#watch = undefined;
      this.changed();
    };
    const path = `${directory}/${contender.name}`;
    const { value, watch } = await watches.getChildren(path, listener, performance.now() + REQUEST_MS);
    if (value === undefined) this.#rounds.again();
    else if (!fired) this.#watch = watch;
  }

  /** Behind a `sync`; the room before the line, as whoever goes from one to the other. */
  async #list(): Promise<{ room: Contender[]; line: Contender[] }> {
    const zk = this.#context.control.until(performance.now() + REQUEST_MS);
    const { path } = this.#room;
    const [, room, line] = await Promise.all([zk.sync(path), zk.list(path), zk.children(this.#line)]);
    const waiting = sortLine(room?.children ?? []);
    if (room !== undefined) this.#room.merge(waiting, room.zxid, room.stat);
    return { room: waiting, line: sortLine(line) };
  }

  #firstOfMine(): Waiter | undefined {
    let first: Waiter | undefined;
    for (const waiter of this.#room.waiters.values())
      if (first === undefined || waiter.place.sequence < first.place.sequence) first = waiter;
    return first;
  }

  async #checkAbandoned(): Promise<void> {
    const timer = this.#check;
    try {
      const { room, line } = await this.#list();
      // While somebody stands in the line nobody waits for those in the room.
      if (await this.#removeAbandoned(this.#line, line)) await this.#removeAbandoned(this.#room.path, room);
    } catch {
      // Looked for again; until then whoever waits does so until its own deadline.
    }
    if (this.#check === timer) this.#check = setTimeout(() => void this.#checkAbandoned(), ABANDONED_CHECK_MS);
  }

  /** Removes those who are abandoned, up to the first who is not. @returns whether nobody is left */
  async #removeAbandoned(directory: string, standing: readonly Contender[]): Promise<boolean> {
    const deadline = performance.now() + REQUEST_MS;
    for (const head of standing) {
      if (this.#room.waiters.has(head.name)) return false;
      if (!(await removeIfAbandoned(this.#context, directory, head, deadline))) return false;
    }
    return true;
  }
}
