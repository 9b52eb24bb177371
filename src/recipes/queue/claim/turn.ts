/**
 * The turn to take from a queue: one replica at a time has it, the first in `takers`.
 *
 * Without turns, concurrent replicas all reach for the same first messages: all but one fail, and none of them may
 * reach further without breaking the order. With turns nobody fails; the replica that has the turn takes for all its
 * consumers, and passes it on after a few milliseconds of work if another one waits behind it.
 *
 *   apart ──join──▶ waiting ──all before me have gone──▶ held ──pass──▶ waiting | apart
 *                      └────────────my node was deleted──────┴──────▶ apart
 *
 * The turn is a fence: every transaction that takes messages writes or checks its replica's node (`fence`), so a
 * replica that has lost the turn without knowing takes nothing. So a replica that waits behind one that does not move
 * although there is something to take (it was stopped, or cut off) deletes that one's node, and goes on.
 *
 * Who wakes whom: a waiting replica watches the one before it, with a child watch (a data watch would fire at every
 * take); the one that holds watches the directory, to know whether others wait.
 */
import { PosternError } from '../../../errors.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { baseName, LAST_SEQUENCE, parseSequence } from '../../../zookeeper/paths.js';
import type { Watch } from '../../../zookeeper/watch.js';
import { WORN_FROM } from '../../line/worn-directory.js';
import { QueueGoneError } from '../gone.js';

const PREFIX = 't-';
/** No name that ZooKeeper gives. */
const NOT_IN_LINE = `${PREFIX}none`;

/** What a taker's node says. */
export interface TakerRecord {
  /** Of its last transaction: tells after a lost connection whether it was done. */
  number: number;
  /** Consumers that wait at this replica. */
  waiting: number;
}

export function encodeTaker({ number, waiting }: TakerRecord): Buffer {
  return Buffer.from(`${number} ${waiting}`);
}

export function decodeTaker(data: Buffer): TakerRecord {
  const [number = 0, waiting = 0] = data.toString('utf8').split(' ').map(Number);
  return { number, waiting };
}

export class Turn {
  readonly #control: ControlSession;
  readonly #directory: string;
  readonly #onChange: () => void;
  #name: string | undefined;
  #held = false;
  #asked = false;
  /** The first in line, when that is not this replica. */
  #first: string | undefined;
  #watch: Watch | undefined;
  /** The watch has fired, or was never set. */
  #stale = true;
  /**
   * Nodes of this replica may stand in line that it does not know of: the reply was lost. They would have to be ousted.
   */
  #ghosts = false;
  #looking: Promise<void> | undefined;

  constructor(control: ControlSession, directory: string, onChange: () => void) {
    this.#control = control;
    this.#directory = directory;
    this.#onChange = onChange;
  }

  get held(): boolean {
    return this.#held;
  }

  /** Another replica waits for its turn. */
  get asked(): boolean {
    return this.#asked;
  }

  /** This replica stands in line, or holds. */
  get joined(): boolean {
    return this.#name !== undefined;
  }

  /** Who is the first; undefined when that is this replica, or unknown. */
  get first(): string | undefined {
    return this.#first;
  }

  /**
   * The node that every transaction of this turn writes or checks. Without one it is a node that there never is: such a
   * transaction has lost its turn.
   */
  get path(): string {
    return `${this.#directory}/${this.#name ?? NOT_IN_LINE}`;
  }

  /** Makes a transaction fail unless this replica still has the turn. */
  fence(record: TakerRecord): MultiOperation {
    return { type: 'setData', path: this.path, data: encodeTaker(record) };
  }

  /** Joins if need be, and looks who is first if that may have changed. @throws QueueGoneError */
  look(record: TakerRecord, deadline: number): Promise<void> {
    this.#looking ??= this.#look(record, deadline).finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  /** Lets the next one take. @param again this replica wants another turn, behind those who wait */
  async pass(again: boolean, record: TakerRecord, deadline: number): Promise<void> {
    const { path } = this;
    this.#leave();
    this.#ghosts = true; // until the reply says otherwise
    const operations: MultiOperation[] = [{ type: 'delete', path }];
    // Where the numbers come to an end, somebody has to be alone, and that is who comes next if this one is not back at
    // once.
    if (again && (parseSequence(path) ?? 0) < WORN_FROM)
      operations.push({
        type: 'create',
        path: `${this.#directory}/${PREFIX}`,
        data: encodeTaker(record),
        mode: 'ephemeral-sequential',
      });
    const results = await unless(this.#control.multi(operations, deadline), 'NO_NODE');
    this.#ghosts = false;
    const created = results?.at(-1);
    if (created?.type === 'create') this.#name = baseName(created.path);
  }

  /** A transaction has found that the node is gone. */
  lost(): void {
    this.#leave();
  }

  /** Takes the first one out of line, who does not take. */
  async oust(first: string, deadline: number): Promise<void> {
    await unless(this.#control.delete(`${this.#directory}/${first}`, undefined, deadline), 'NO_NODE');
    this.#stale = true;
  }

  close(): void {
    if (this.#name === undefined) return;
    const { path } = this;
    this.#leave();
    // Left behind it stands in the way of others until they oust it, or until the session ends.
    this.#control.delete(path, undefined, performance.now() + 5_000).catch((error: unknown) => {
      if (!isReason(error, 'NO_NODE')) this.#ghosts = true;
    });
  }

  #leave(): void {
    this.#watch?.cancel();
    this.#watch = undefined;
    this.#name = undefined;
    this.#held = false;
    this.#asked = false;
    this.#first = undefined;
    this.#stale = true;
  }

  async #look(record: TakerRecord, deadline: number): Promise<void> {
    for (let ousted = true; ousted;) {
      if (this.#name === undefined) await this.#join(record, deadline);
      ousted = this.#stale && !(await this.#read(deadline)); // then to the end of the line
    }
  }

  async #join(record: TakerRecord, deadline: number): Promise<void> {
    if (this.#ghosts) await this.#layGhosts(deadline);
    this.#ghosts = true;
    try {
      const { path } = await this.#control.create(
        `${this.#directory}/${PREFIX}`,
        encodeTaker(record),
        { mode: 'ephemeral-sequential' },
        deadline,
      );
      this.#ghosts = false;
      this.#name = baseName(path);
    } catch (error) {
      if (isReason(error, 'NO_NODE')) throw new QueueGoneError();
      if (!isReason(error, 'NODE_EXISTS')) throw error;
      this.#ghosts = false;
      throw noMoreNumbers(); // another replica has the last one there is
    }
  }

  async #layGhosts(deadline: number): Promise<void> {
    await this.#control.sync(this.#directory, deadline);
    for (const path of await this.#control.getEphemerals(this.#directory, deadline))
      await unless(this.#control.delete(path, undefined, deadline), 'NO_NODE');
  }

  /** @returns false when this replica was ousted */
  async #read(deadline: number): Promise<boolean> {
    const { watches } = this.#control;
    for (;;) {
      this.#watch?.cancel();
      this.#watch = undefined;
      let fired = false;
      const onEvent = (): void => {
        fired = true;
        this.#watch = undefined;
        this.#stale = true;
        this.#onChange();
      };
      const listing = await unless(this.#control.getChildren(this.#directory, deadline), 'NO_NODE');
      if (listing === undefined) throw new QueueGoneError();
      const line = sorted(listing.children);
      if (this.#name === undefined) return true; // left meanwhile
      const mine = line.indexOf(this.#name);
      if (parseSequence(this.#name) === undefined) return this.#withoutOrder(deadline);
      if (mine < 0) {
        this.#leave();
        return false;
      }
      if (mine === 0 && line.length === 1 && isWorn(this.#name)) await this.#renew(deadline);
      if (this.#left()) return true;
      if (parseSequence(this.#name) === LAST_SEQUENCE) return this.#withoutOrder(deadline);
      if (mine === 0) {
        const { value, watch } = await watches.getChildren(this.#directory, onEvent, deadline);
        const now = sorted(value?.children ?? []);
        if (this.#left() || now[0] !== this.#name) {
          watch?.cancel();
          const left = this.#left();
          if (!left) this.#leave();
          return left;
        }
        this.#held = true;
        this.#asked = now.length > 1;
        this.#first = undefined;
        this.#settle(watch, fired);
        return true;
      }
      this.#held = false;
      this.#first = line[0];
      const { value, watch } = await watches.getChildren(
        `${this.#directory}/${line[mine - 1] as string}`,
        onEvent,
        deadline,
      );
      if (value === undefined) continue;
      if (this.#left()) watch?.cancel();
      else this.#settle(watch, fired);
      return true;
    }
  }

  /**
   * Makes the directory anew with this replica alone in it, which keeps its turn: the numbers begin at 0 again
   * (`worn-directory.ts`).
   */
  async #renew(deadline: number): Promise<void> {
    const { path } = this;
    const directory = this.#directory;
    const node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
    if (node === undefined) return;
    this.#ghosts = true; // until the reply says otherwise
    const results = await unless(
      this.#control.multi(
        [
          { type: 'delete', path },
          { type: 'delete', path: directory },
          { type: 'create', path: directory },
          { type: 'create', path: `${directory}/${PREFIX}`, data: node.data, mode: 'ephemeral-sequential' },
        ],
        deadline,
      ),
      'NO_NODE',
      'NOT_EMPTY',
    );
    this.#ghosts = false;
    const created = results?.at(-1);
    if (created?.type === 'create' && !this.#left()) this.#name = baseName(created.path);
  }

  /** The node has the last number there is: another one may have it as well some day, and take itself for this one. */
  async #withoutOrder(deadline: number): Promise<never> {
    const { path } = this;
    this.#leave();
    await unless(this.#control.delete(path, undefined, deadline), 'NO_NODE');
    throw noMoreNumbers();
  }

  /** While something was read it may have been closed, or lost. */
  #left(): boolean {
    return this.#name === undefined;
  }

  #settle(watch: Watch | undefined, fired: boolean): void {
    this.#stale = fired;
    if (fired) watch?.cancel();
    else this.#watch = watch;
  }
}

function noMoreNumbers(): PosternError {
  return new PosternError(
    'zookeeper-unavailable',
    'ZooKeeper has no more numbers for the turns at this queue until no replica waits for one; repeat the request.',
  );
}

function isWorn(name: string | undefined): boolean {
  return name !== undefined && (parseSequence(name) ?? 0) >= WORN_FROM;
}

function sorted(children: readonly string[]): string[] {
  return children
    .filter((name) => parseSequence(name) !== undefined)
    .sort((a, b) => (parseSequence(a) as number) - (parseSequence(b) as number));
}
