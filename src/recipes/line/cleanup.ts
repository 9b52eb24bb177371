/**
 * What could not be taken back or given up: kept, and done again until ZooKeeper has answered (CURATOR-678: a release
 * interrupted by a connection loss must not leave its node behind forever).
 *
 * Each deletes only what the attempt that gave the place up wrote last; once another attempt has taken the place over,
 * the deletion does nothing. Bounded in number and age: nodes whose deletion is dropped end with their lease.
 */
import { LeaseExpiredError } from '../../errors.js';
import { fullJitter } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, isTransient } from '../../zookeeper/errors.js';
import { raiseFence } from '../../zookeeper/lease/fence.js';
import { deleteContender } from './candidate-tail.js';
import {
  decodeRecord,
  downgradedNameOf,
  encodeRecord,
  guidOf,
  sortLine,
  withState,
  type ContenderRecord,
} from './contender.js';
import { deleteWithMark, hasMark, type HoldNode } from './delay/mark.js';

/** One thing to be done. @returns whether there is nothing left to do */
type Task = () => Promise<boolean>;

/** A node that an attempt has left. */
interface Left extends HoldNode {
  record: ContenderRecord;
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
   * Deletes the node if this attempt wrote it last. It is looked at first: by now another hold may have the same path
   * at the same version, and a write of ours, whose reply was lost, may have raised the version.
   */
  deleteLater(path: string, attempt: string): void {
    this.#add(async () => {
      const zk = this.#zk();
      const left = await leftAt(zk, path, attempt);
      return left === undefined || deleteIfSame(zk, left);
    });
  }

  /**
   * Ends what this attempt has left under one of the guids: a create whose reply was lost has no name yet. One that has
   * not come through when the fence is raised never does (protocol C46), so that one look behind it is enough.
   * @param fence path of the lease's own node
   * @param heldBefore czxid of a node that stays all the same
   * @param keptUntil the place stays in line, as one that nobody waits in from then on (epoch ms on the ensemble's
   *   clock); undefined: it is deleted
   */
  endAttempt(
    directory: string,
    guids: readonly string[],
    attempt: string,
    {
      fence,
      heldBefore,
      keptUntil,
    }: { fence: string; heldBefore?: number | undefined; keptUntil?: number | undefined },
  ): void {
    let isFenced = false;
    this.#add(async () => {
      const zk = this.#zk();
      // Without that node nothing is created either: one look is final all the same.
      if (!isFenced)
        await raiseFence(zk, fence).catch((error: unknown) => {
          if (!(error instanceof LeaseExpiredError)) throw error;
        });
      isFenced = true;
      await zk.sync(directory);
      const own = sortLine(await zk.children(directory)).filter(({ name }) => guids.includes(guidOf(name) ?? ''));
      let open = false;
      for (const [i, { name }] of own.entries()) {
        // A reader's place that is reserved goes, or stays, with its writer.
        if (name === downgradedNameOf(own[i - 1]?.name ?? '')) continue;
        const left = await leftAt(zk, `${directory}/${name}`, attempt);
        if (left === undefined || left.czxid === heldBefore) continue;
        // Behind another one of the same request it is that one's duplicate.
        const done = keptUntil === undefined || i > 0 ? deleteIfSame(zk, left) : keepIfSame(zk, left, keptUntil);
        if (!(await done)) open = true;
      }
      return !open;
    });
  }

  /** Does again what ZooKeeper has not answered, until it has. */
  persist(task: () => Promise<unknown>): void {
    this.#add(() => task().then(() => true));
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

  #zk(): BoundClient {
    return this.#control.until(performance.now() + REQUEST_MS);
  }
}

/** @returns false when the node is at another version */
function deleteIfSame(zk: BoundClient, left: Left): Promise<boolean> {
  const deleting = hasMark(left.record)
    ? deleteWithMark(zk, left, left.record.downgradable)
    : deleteContender(zk, left.path, left.version, left.record.downgradable);
  return isSame(deleting);
}

/** @returns as `deleteIfSame` */
function keepIfSame(zk: BoundClient, { path, version, record }: Left, waitUntil: number): Promise<boolean> {
  if (record.state === 'waiting' && record.waitUntil === waitUntil) return Promise.resolve(true);
  return isSame(zk.set(path, encodeRecord(withState(record, 'waiting', { waitUntil })), version));
}

async function isSame(writing: Promise<unknown>): Promise<boolean> {
  try {
    await writing;
    return true;
  } catch (error) {
    if (isReason(error, 'BAD_VERSION')) return false;
    if (isReason(error, 'NO_NODE')) return true;
    throw error;
  }
}

/** The node as it is, if this attempt wrote it last. */
async function leftAt(zk: BoundClient, path: string, attempt: string): Promise<Left | undefined> {
  await zk.sync(path);
  const node = await zk.find(path);
  const record = node === undefined ? undefined : decodeRecord(node.data);
  if (node === undefined || record?.attempt !== attempt) return undefined;
  return { path, czxid: node.stat.czxid, version: node.stat.version, record };
}
