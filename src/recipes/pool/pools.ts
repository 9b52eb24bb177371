/**
 * Makes, changes, removes and shows pools for requests. Each change is made in the turn of its name (`name-turn.ts`,
 * C35): what was decided for a pool that was removed since changes nothing of the one that was made in its place.
 *
 * A pool is made with its id and its empty directories in one transaction, and removed with the directory of its holds
 * in another: that fails as long as a member is held. Its marks stay behind for housekeeping (`tidy.ts`); under their
 * id nobody looks any more.
 */
import { PosternError, StandingConflictError } from '../../errors.js';
import type { Page } from '../../page.js';
import { randomId } from '../../random.js';
import type { Awaited } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason } from '../../zookeeper/errors.js';
import { readOfMany, type ReadNode } from '../../zookeeper/read-nodes.js';
import { AGAIN } from '../../zookeeper/retrying.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { NameBounds } from '../name-bounds.js';
import { AFTER_TURN, inTurn, type NameTurn } from '../name-turn.js';
import { paced } from '../observing/looks.js';
import { Observers, type LookAt } from '../observing/observers.js';
import {
  decodePool,
  DEFINITION_BYTES_MAX,
  encodePool,
  membersOf,
  parsePool,
  poolRef,
  type Pool,
  type PoolConfig,
  type PoolRef,
} from './pool.js';
import { readPool, viewOf, withoutMembers, type PoolView } from './state.js';

export type PoolObservers = Observers<PoolRef, PoolView>;

const ID_BYTES = 8;
/** A busy pool changes more often than anybody wants to be told. */
const PACE_MS = 100;

export interface ListedPools {
  readonly items: readonly { readonly name: string; readonly total: number; readonly quarantineMs: number }[];
  readonly next: string | undefined;
}

/** Of one replica. */
export class Pools {
  readonly observers: PoolObservers;
  readonly #context: Coordination;
  readonly #bound: NameBounds;

  /** @param maxPools in one namespace; 0: any number */
  constructor(context: Coordination, maxPools: number) {
    this.#context = context;
    this.#bound = new NameBounds(context.control, maxPools, 'maxPools');
    this.observers = new Observers(context.control, paced(PACE_MS, this.#look()));
  }

  ref(namespace: string, name: string): PoolRef {
    return poolRef(this.#context.layout, namespace, name);
  }

  /**
   * Makes a pool, or changes its members; who has one that is missing now goes on having it.
   * @returns whether it was made
   * @throws PosternError `too-many-names`, `too-large`, `conflict`; ClientGoneError, NoReplyError
   */
  async put(ref: PoolRef, config: PoolConfig, awaited: Awaited): Promise<boolean> {
    const { deadline } = awaited;
    const zk = this.#writing(awaited);
    const bytes = encodePool('0'.repeat(2 * ID_BYTES), config).length;
    if (bytes > DEFINITION_BYTES_MAX)
      throw new PosternError(
        'too-large',
        `The members have ${bytes} bytes together; those of a pool have at most ${DEFINITION_BYTES_MAX}. Nothing was done.`,
        { members: { maxBytes: DEFINITION_BYTES_MAX, bytes } },
      );
    return inTurn(this.#turnOf(ref, awaited), async (turn) => {
      const found = await zk.fresh(() => zk.find(ref.path));
      if (found === undefined) await this.#bound.admit(this.#context.layout.pools(ref.namespace), deadline);
      try {
        await zk.multi([turn, ...this.#writes(ref, config, found)]);
        return found === undefined;
      } catch (error) {
        if (isReason(error, 'NO_NODE')) await this.#ensureParents(zk, ref);
        else if (!isReason(error, 'NODE_EXISTS')) throw error;
        return AGAIN;
      }
    });
  }

  /**
   * Removes a pool, if there is one and nobody has a member.
   * @throws StandingConflictError while one is held; ClientGoneError, NoReplyError
   */
  async remove(ref: PoolRef, awaited: Awaited): Promise<void> {
    const zk = this.#writing(awaited);
    await inTurn(this.#turnOf(ref, awaited), async (turn) => {
      const found = await zk.fresh(() => zk.find(ref.path));
      const removals: MultiOperation[] =
        found === undefined
          ? []
          : [
              { type: 'delete', path: this.#context.layout.poolHolds(ref.namespace, decodePool(ref.name, found).id) },
              { type: 'delete', path: ref.path },
            ];
      try {
        await zk.multi([turn, ...removals]);
        return undefined;
      } catch (error) {
        if (isReason(error, 'NOT_EMPTY') && error.failedIndex === AFTER_TURN)
          throw new StandingConflictError(
            `Members of the pool "${ref.name}" are held; it can be deleted when all of them have been released. Nothing was done.`,
            { name: ref.name },
          );
        if (!isReason(error, 'NO_NODE')) throw error;
        return AGAIN;
      }
    });
  }

  /** From the connected server, without a quorum. */
  read(ref: PoolRef, zk: BoundClient): Promise<PoolView> {
    return readPool(zk, this.#context.layout, ref, this.#context.zooKeeperClock.now());
  }

  /** Behind a quorum. */
  readLatest(ref: PoolRef, deadline: number): Promise<PoolView> {
    const zk = this.#context.control.until(deadline);
    return zk.fresh(() => this.read(ref, zk));
  }

  /**
   * Those of a page, in order of name.
   * @returns `next`: the last name, if there are more
   */
  async list(namespace: string, page: Page, isStale: boolean, deadline: number): Promise<ListedPools> {
    const { control, layout } = this.#context;
    const zk = control.until(deadline);
    const directory = layout.pools(namespace);
    if (!isStale) await zk.sync(directory);
    const names = (await zk.names(directory)).page(page);
    const shown = names.slice(0, page.limit);
    const paths = shown.map((name) => layout.pool(namespace, name));
    const items: { name: string; total: number; quarantineMs: number }[] = [];
    for (const [i, path] of paths.entries()) {
      // One by one: each may have nearly as many bytes as an answer may have.
      const parse = (node: ReadNode): Pool | undefined => parsePool(shown[i] as string, node);
      const [pool] = await readOfMany(zk, control.largeReads, [path], parse, DEFINITION_BYTES_MAX);
      if (pool === undefined) continue;
      items.push({ name: shown[i] as string, total: membersOf(pool).length, quarantineMs: pool.quarantineMs });
    }
    return { items, next: names.length > page.limit ? shown.at(-1) : undefined };
  }

  #writes(ref: PoolRef, config: PoolConfig, found: NodeData | undefined): MultiOperation[] {
    const { layout } = this.#context;
    if (found !== undefined) {
      const { id } = decodePool(ref.name, found);
      return [{ type: 'setData', path: ref.path, data: encodePool(id, config), version: found.stat.version }];
    }
    const id = randomId(ID_BYTES, 'hex');
    return [
      { type: 'create', path: ref.path, data: encodePool(id, config) },
      { type: 'create', path: layout.poolHolds(ref.namespace, id) },
      { type: 'create', path: layout.poolMarks(ref.namespace, id) },
    ];
  }

  async #ensureParents(zk: BoundClient, { namespace }: PoolRef): Promise<void> {
    const { layout } = this.#context;
    for (const path of [layout.pools(namespace), layout.allPoolHolds(namespace), layout.allPoolMarks(namespace)])
      await zk.ensure(path);
  }

  /** One watch each on the definition, the holds and the marks. Whatever is read is large only if the definition is. */
  #look(): LookAt<PoolRef, PoolView> {
    const { control, layout, zooKeeperClock } = this.#context;
    return async (ref, look) => {
      const { watches } = control;
      const found = await watches.exists(ref.path, look.wake, look.deadline);
      look.keep(found.watch);
      const bytes = found.value?.dataLength ?? 0;
      await control.largeReads.spend(bytes, look.deadline, async () => {
        const zk = control.until(look.deadline);
        const node = found.value === undefined ? undefined : await zk.find(ref.path);
        const pool = node === undefined ? undefined : parsePool(ref.name, node);
        if (pool !== undefined)
          for (const path of [layout.poolMarks(ref.namespace, pool.id), layout.poolHolds(ref.namespace, pool.id)])
            look.keep((await watches.getChildren(path, look.wake, look.deadline)).watch);
        look.publish(withoutMembers(await viewOf(zk, layout, ref, node, zooKeeperClock.now())));
      });
      return 'wait';
    };
  }

  #writing({ deadline, requester }: Awaited): BoundClient {
    return this.#context.control.writingFor(requester).until(deadline);
  }

  #turnOf({ namespace, name }: PoolRef, awaited: Awaited): NameTurn {
    const path = this.#context.layout.poolTurn(namespace, name);
    return { zk: this.#writing(awaited), path, busy: `Others wrote and removed the pool "${name}"` };
  }
}
