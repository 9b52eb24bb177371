/**
 * Deletions that could not be sent: kept, and sent again until ZooKeeper has answered (CURATOR-678: a release that is
 * interrupted by a connection loss must not leave its node for ever).
 *
 * Each deletes only what the attempt that gave it up wrote last; once another attempt has taken the place over,
 * the deletion does nothing. Bounded in number and age: whatever is dropped goes with its lease.
 */
import { fullJitter } from '../time.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, isTransient, unless } from '../zookeeper/errors.js';
import { deleteContender } from './candidate-tail.js';
import { decodeRecord, guidOf } from './contender.js';
import { deleteWithMark, hasMark, type HoldNode } from './delay-mark.js';

/** One thing to be done. @returns whether there is nothing left to do */
type Task = () => Promise<boolean>;

/** A node that an attempt has left. */
interface Left extends HoldNode {
  marked: boolean;
}

interface Pending {
  task: Task;
  since: number;
}

const PENDING_MAX = 20_000;
/** Below the time after which an unused directory may be removed and its sequence may begin anew. */
const AGE_MAX_MS = 30 * 60_000;
const RETRY_BASE_MS = 100;
const RETRY_CAP_MS = 5_000;
const REQUEST_MS = 5_000;
/** A create that was cut off may arrive after we have looked for its node; not much later. */
const LOOKS_IN_VAIN = 3;

export class Cleanup {
  readonly #control: ControlSession;
  #pending: Pending[] = [];
  #running = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #round = 0;
  #inHand = 0;

  constructor(control: ControlSession) {
    this.#control = control;
  }

  get pending(): number {
    return this.#pending.length + this.#inHand;
  }

  /**
   * Deletes the node if this attempt wrote it last. It is looked at first: by now another hold may have the same path at the same
   * version, and a write of ours, whose reply was lost, may have raised the version.
   */
  deleteLater(path: string, attempt: string): void {
    this.#add(async () => {
      const deadline = performance.now() + REQUEST_MS;
      const left = await this.#leftAt(path, attempt, deadline);
      return left === undefined || this.#delete(left, deadline);
    });
  }

  /**
   * Deletes what this attempt has left under one of the guids: a create whose reply was lost has no name yet.
   * @param heldBefore czxid of a node that stays all the same
   */
  deleteAttempt(directory: string, guids: readonly string[], attempt: string, heldBefore?: number): void {
    let looks = 0;
    this.#add(async () => {
      const deadline = performance.now() + REQUEST_MS;
      await this.#control.sync(directory, deadline);
      const children = (await unless(this.#control.getChildren(directory, deadline), 'NO_NODE'))?.children ?? [];
      let open = false;
      for (const name of children.filter((child) => guids.includes(guidOf(child) ?? ''))) {
        const path = `${directory}/${name}`;
        const left = await this.#leftAt(path, attempt, deadline);
        if (left === undefined || left.czxid === heldBefore) continue;
        if (!(await this.#delete(left, deadline))) open = true;
      }
      looks += 1;
      return !open && looks >= LOOKS_IN_VAIN;
    });
  }

  /**
   * Takes back what a request may have done whose reply was lost.
   * @param task @returns whether it had been done
   */
  takeBackLater(task: () => Promise<boolean>): void {
    let looks = 0;
    this.#add(async () => {
      looks += 1;
      return (await task()) || looks >= LOOKS_IN_VAIN;
    });
  }

  /** Tries once more what is still to be done, and then stops. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    if (this.#pending.length > 0 && this.#control.connected && !this.#running) await this.#run();
  }

  #add(task: Task): void {
    if (this.#pending.length >= PENDING_MAX) this.#pending.shift();
    this.#pending.push({ task, since: performance.now() });
    this.#schedule();
  }

  #schedule(): void {
    if (this.#running || this.#stopped || this.#timer !== undefined || this.#pending.length === 0) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        void this.#run();
      },
      fullJitter(this.#round, RETRY_BASE_MS, RETRY_CAP_MS),
    );
  }

  async #run(): Promise<void> {
    this.#running = true;
    const oldest = performance.now() - AGE_MAX_MS;
    const batch = this.#pending.filter(({ since }) => since > oldest);
    this.#pending = [];
    this.#inHand = batch.length;
    const done = await Promise.all(batch.map(({ task }) => task().catch((error: unknown) => !isTransient(error))));
    this.#inHand = 0;
    this.#pending = [...batch.filter((_, i) => done[i] === false), ...this.#pending];
    this.#round = this.#pending.length === 0 ? 0 : this.#round + 1;
    this.#running = false;
    this.#schedule();
  }

  /** @returns false when the node is at another version */
  async #delete({ marked, ...node }: Left, deadline: number): Promise<boolean> {
    try {
      if (marked) await deleteWithMark(this.#control, node, deadline);
      else await deleteContender(this.#control, node.path, node.version, deadline);
      return true;
    } catch (error) {
      if (isReason(error, 'BAD_VERSION')) return false;
      if (isReason(error, 'NO_NODE')) return true;
      throw error;
    }
  }

  /** The node as it is, if this attempt wrote it last. */
  async #leftAt(path: string, attempt: string, deadline: number): Promise<Left | undefined> {
    await this.#control.sync(path, deadline);
    const node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
    const record = node === undefined ? undefined : decodeRecord(node.data);
    if (node === undefined || record?.attempt !== attempt) return undefined;
    return { path, czxid: node.stat.czxid, version: node.stat.version, marked: hasMark(record) };
  }
}
