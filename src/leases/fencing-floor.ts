/**
 * The floor of fencing tokens: what is added to ZooKeeper's transaction ids, so that numbers that callers compare go on
 * rising after a restore, or in another ensemble (protocol C99).
 *
 * Layout:  <root>/fencing-floors/<n>              the present floor, from the transaction on that made the node, and
 *                                                 the earlier ones, each with the transaction from which it counted
 *                                                 (persistent); there is always exactly one such node
 *          <root>/fencing-floors/<n>/<sessionId>  a process that counts with it (ephemeral, of its control session)
 *
 * A process counts with one floor all its life. It registers below the node of that floor before it does anything else,
 * on each of its control sessions. To raise the floor is one transaction, which deletes the node and makes the next
 * one: ZooKeeper refuses that while anybody is registered below. What a process that is registered no longer may still
 * have is sessions of leases, and therefore no lease may live either:
 *
 *  1. read the node: nobody is registered. Who registers later writes to it, so the version tells;
 *  2. look for leases: there are none. A lease is made only by a process that is registered (`grant.ts`);
 *  3. delete the node at the version of step 1 and make the next one. From this transaction on the new floor counts.
 *
 * A crash after step 1 or 2 leaves nothing, and one after step 3 a floor that is raised.
 *
 * The nodes of the processes are also where they tell each other what must be known of all that may still write here:
 * who has no node has no session either.
 */
import { randomUUID } from 'node:crypto';
import { PosternError } from '../errors.js';
import type { Logger } from '../log.js';
import type { BoundClient } from '../zookeeper/bound.js';
import { floorAbove, type FloorStep, type Zxids } from '../zookeeper/connection/zxids.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../zookeeper/operations.js';
import { join } from '../zookeeper/paths.js';
import { isLeaseAlive } from './lease-life.js';
import type { Layout } from './layout.js';
import { replicasOf } from './replicas.js';

/** So many earlier floors are kept; holds from before that are numbered as if they were later. */
const EARLIER_MAX = 100;
/** In so many namespaces leases are looked for at once. */
const LOOKED_AT_ONCE = 32;
const NO_FLOOR = encode({ floor: 0, earlier: [] });

interface Floor {
  readonly floor: number;
  /** In rising order. */
  readonly earlier: readonly FloorStep[];
}

interface FoundFloor extends Floor {
  /** The `<n>` of its path. */
  readonly index: number;
  readonly path: string;
  readonly node: NodeData;
}

/** Of a process that counts with it. */
interface Own {
  readonly path: string;
  readonly floor: number;
  /** The node of the floor, as it was found: the transaction that made it is as ZooKeeper numbers it. */
  readonly data: Buffer;
  readonly czxid: number;
  /** The process's node on its present control session. */
  registration: string;
  /** What was written into it. */
  told: string;
}

/** What a process has told. */
export interface Told {
  /** Its control session, as its nodes are called. */
  readonly session: string;
  readonly what: string;
}

export interface FencingFloorOptions {
  readonly control: ControlSession;
  readonly layout: Layout;
  readonly zxids: Zxids;
  /** Every number from now on is to be higher. */
  readonly above: number;
  /** What says so. */
  readonly setting: string;
  readonly logger: Logger;
  /** Done on each control session once the process is registered, before anything else. May throw NoReplyError. */
  readonly onRegistered?: ((zk: BoundClient) => Promise<void>) | undefined;
}

export class FencingFloor {
  readonly #options: FencingFloorOptions;
  readonly #directory: string;
  #own: Own | undefined;
  #settling: Promise<void> | undefined;
  #refused: PosternError | undefined;
  #isWaiting = false;

  constructor(options: FencingFloorOptions) {
    this.#options = options;
    this.#directory = join(options.layout.root, 'fencing-floors');
  }

  /** Why nothing can be done now; undefined if something can, or if that is not known yet. */
  get refused(): PosternError | undefined {
    return this.#refused;
  }

  /** It has not begun, because other processes count with a lower floor than the one that it wants. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Above it is every token that is given out now; 0 without a floor, and before this process is registered. */
  get present(): number {
    return this.#own?.floor ?? 0;
  }

  /** What raises it. */
  get setting(): string {
    return this.#options.setting;
  }

  /** The node that says that this process counts with the present floor. Whoever makes a lease checks it. */
  get registration(): string {
    if (this.#own === undefined) throw new Error('no request comes before the process is registered');
    return this.#own.registration;
  }

  /**
   * Raises the floor if that is wanted, and registers this process. After the first time it does nothing: further
   * sessions are registered before anything else is sent on them.
   * @throws PosternError `zookeeper-unavailable` while others still count with a lower floor than the wanted one
   * @throws NoReplyError
   */
  async settle(deadline: number): Promise<void> {
    if (this.#own === undefined)
      return (this.#settling ??= this.#settle(deadline).finally(() => (this.#settling = undefined)));
    if (this.#refused !== undefined) throw this.#refused;
  }

  /**
   * Tells the others something of this process; kept for as long as its control session lasts.
   * @returns false if it is not registered at this moment
   * @throws NoReplyError
   */
  async tell(what: string, deadline: number): Promise<boolean> {
    const own = this.#own;
    if (own === undefined) return false;
    const { registration } = own;
    if (own.told === what) return true;
    const told = this.#options.control.until(deadline).set(registration, Buffer.from(what));
    if ((await unless(told, 'NO_NODE')) === undefined || own.registration !== registration) return false;
    own.told = what;
    return true;
  }

  /**
   * What each registered process has told, as new as all that was acknowledged before; '' of one that has told nothing.
   * @throws NoReplyError
   */
  async told(deadline: number): Promise<Told[]> {
    const zk = this.#options.control.until(deadline);
    const path = this.#own?.path;
    if (path === undefined) return [{ session: '', what: '' }];
    const { registered, others } = await zk.fresh(() => this.#processes(zk, path));
    const told = await Promise.all(
      registered.map(async (session) => {
        const node = await zk.find(join(path, session));
        return node === undefined ? [] : [{ session, what: node.data.toString() }];
      }),
    );
    return [...told.flat(), ...others.map((session) => ({ session, what: '' }))];
  }

  /**
   * To be done with a write that is right only if no process has registered from this call on.
   * @throws NoReplyError
   */
  async unlessOthersCome(deadline: number): Promise<MultiOperation[]> {
    const zk = this.#options.control.until(deadline);
    const path = this.#own?.path;
    const stat = path === undefined ? undefined : await zk.fresh(() => zk.exists(path));
    return path === undefined || stat === undefined ? [] : [{ type: 'check', path, version: stat.version }];
  }

  async #settle(deadline: number): Promise<void> {
    const { above } = this.#options;
    const zk = this.#options.control.until(deadline);
    for (;;) {
      const found = await this.#find(zk);
      if (found === undefined) continue;
      if (found.floor < above) await this.#raise(zk, found);
      else if (await this.#register(zk, found)) return;
    }
  }

  /** @returns undefined if it is to be looked for again */
  async #find(zk: BoundClient): Promise<FoundFloor | undefined> {
    const directory = this.#directory;
    const listing = await zk.list(directory);
    if (listing === undefined) {
      // Together, so that the first floor is made once.
      const made = zk.multi([
        { type: 'create', path: directory },
        { type: 'create', path: join(directory, '0'), data: NO_FLOOR },
      ]);
      if ((await unless(made, 'NODE_EXISTS')) === undefined) await zk.sync(directory);
      return undefined;
    }
    const index = Math.max(...listing.children.map(Number));
    const path = join(directory, String(index));
    const node = await zk.find(path);
    if (node === undefined) await zk.sync(directory);
    return node && { ...decode(path, node), index, path, node };
  }

  /** @returns false if it has been raised meanwhile */
  async #register(zk: BoundClient, { path, node, ...found }: FoundFloor): Promise<boolean> {
    const { control, zxids, logger, above } = this.#options;
    const { data, stat } = node;
    const own: Own = { path, floor: found.floor, data, czxid: stat.czxid, registration: '', told: '' };
    try {
      if (!(await this.#enter(zk, own))) return false;
    } catch (error) {
      if (isReason(error, 'EPHEMERAL_ON_LOCAL_SESSION'))
        this.#refused = new PosternError(
          'zookeeper-error',
          'The ensemble gives out local sessions without upgrading them; Postern needs localSessionsUpgradingEnabled or no local sessions.',
          { cause: error, outcome: 'not-applied' },
        );
      throw this.#refused ?? error;
    }
    zxids.number(stepsOf(found, own.czxid));
    await this.#options.onRegistered?.(zk);
    control.admitBy((session) => this.#enterAgain(session));
    this.#own = own;
    this.#refused = undefined;
    this.#isWaiting = false;
    const { floor } = found;
    logger.info({ fencingFloor: floor, above }, 'fencing tokens are counted from this floor');
    return true;
  }

  /**
   * The node of the process first, then a write to that of the floor: a raise that has seen neither fails at the
   * version, and no lease is made before both are done. The write changes nothing: in an ensemble that was made anew
   * another floor may stand at the same path, while within one no path comes twice.
   * @returns false if that floor has been raised, or another one is there
   */
  async #enter(zk: BoundClient, own: Own): Promise<boolean> {
    const { path } = own;
    const registration = join(path, BigInt.asUintN(64, this.#options.control.sessionId).toString(16));
    try {
      const [, node] = await Promise.all([zk.sync(path), zk.get(path)]);
      if (!this.#isOwn(own, node)) return false;
      await unless(zk.create(registration, undefined, 'ephemeral'), 'NODE_EXISTS');
      await zk.set(path, node.data);
    } catch (error) {
      if (isReason(error, 'NO_NODE')) return false;
      throw error;
    }
    own.registration = registration;
    own.told = '';
    return true;
  }

  /** Whether it numbers as the floor that this process counts with. */
  #isOwn({ floor, data, czxid }: Own, node: NodeData): boolean {
    return node.data.equals(data) && (floor === 0 || node.stat.czxid === this.#options.zxids.of(czxid));
  }

  /** On a further session. @returns false if this process must not go on: what it remembers is numbered otherwise */
  async #enterAgain(zk: BoundClient): Promise<boolean> {
    const { layout, logger } = this.#options;
    if (this.#own === undefined || this.#refused !== undefined) return false;
    if (await this.#enter(zk, this.#own)) {
      await this.#options.onRegistered?.(zk);
      return true;
    }
    this.#refused = new PosternError(
      'zookeeper-unavailable',
      `The fencing floor of ${layout.root} was raised, or its data replaced, while this replica had no session: nothing is done until it is started again.`,
    );
    logger.error({ err: this.#refused }, 'fencing floor raised beside this replica: start it again');
    return false;
  }

  /** By their control sessions: those below the floor at `path`, and those of releases from before there was one. */
  async #processes(zk: BoundClient, path: string): Promise<{ registered: string[]; others: string[] }> {
    const registered = await zk.children(path);
    // These are known by their other node.
    const others = (await zk.children(this.#options.layout.replicas)).filter((one) => !registered.includes(one));
    return { registered, others };
  }

  async #raise(zk: BoundClient, { index, path, node, floor, earlier }: FoundFloor): Promise<void> {
    const { layout, logger, above } = this.#options;
    const { version, czxid } = node.stat;
    const { registered, others } = await this.#processes(zk, path);
    const all = [...registered, ...others].map((session) => ({ session }));
    this.#isWaiting = all.length > 0;
    if (this.#isWaiting) throw this.#waitsFor(floor, `other processes to stop (${await replicasOf(zk, layout, all)})`);
    this.#waitsFor(floor, 'the namespaces to be looked through for leases'); // said where that takes long
    if (await this.#isAnyLeaseAlive(zk)) throw this.#waitsFor(floor, 'the leases of before to end');
    const raised: Floor = { floor: floorAbove(above), earlier: stepsOf({ floor, earlier }, czxid).slice(-EARLIER_MAX) };
    const made = zk.multi([
      { type: 'delete', path, version },
      { type: 'create', path: join(this.#directory, String(index + 1)), data: encode(raised, randomUUID()) },
    ]);
    const done = await unless(made, 'NO_NODE', 'NODE_EXISTS', 'BAD_VERSION', 'NOT_EMPTY');
    if (done === undefined) await zk.sync(path);
    else logger.warn({ from: floor, to: raised.floor, above }, 'fencing floor raised');
  }

  async #isAnyLeaseAlive(zk: BoundClient): Promise<boolean> {
    const { layout } = this.#options;
    const namespaces = await zk.children(layout.namespaces);
    for (let i = 0; i < namespaces.length; i += LOOKED_AT_ONCE) {
      const some = namespaces.slice(i, i + LOOKED_AT_ONCE);
      const alive = await Promise.all(some.map((namespace) => isLeaseAlive(zk, layout, namespace)));
      if (alive.includes(true)) return true;
    }
    return false;
  }

  #waitsFor(floor: number, what: string): PosternError {
    const { setting, above, layout } = this.#options;
    return (this.#refused = new PosternError(
      'zookeeper-unavailable',
      `${setting} is ${above}, and the floor of ${layout.root} is ${floor}: it can be raised only when nobody counts with it, and waits for ${what}. Nothing was done.`,
    ));
  }
}

/** Those before the node of the present floor; what counted from later on was copied from another ensemble. */
function stepsOf({ floor, earlier }: Floor, from: number): FloorStep[] {
  const steps = earlier.filter((step) => step.from < from);
  return floor === 0 ? steps : [...steps, { from, floor }];
}

/** @param id tells it from another of the same numbers, in an ensemble that was made anew */
function encode({ floor, earlier }: Floor, id?: string): Buffer {
  return Buffer.from(JSON.stringify({ floor, earlier: earlier.map((step) => [step.from, step.floor]), id }));
}

/** @throws PosternError `zookeeper-error` if it is nothing that this gateway has written */
function decode(path: string, { data }: NodeData): Floor {
  try {
    const { floor, earlier } = JSON.parse(data.toString()) as { floor: number; earlier: [number, number][] };
    const steps = earlier.map(([from, of]) => ({ from, floor: of }));
    if ([floor, ...steps.flatMap((step) => [step.from, step.floor])].every(Number.isSafeInteger))
      return { floor, earlier: steps };
  } catch (error) {
    throw notAFloor(path, error);
  }
  throw notAFloor(path, undefined);
}

function notAFloor(path: string, cause: unknown): PosternError {
  return new PosternError('zookeeper-error', `${path} in ZooKeeper has not the form of a fencing floor.`, { cause });
}
