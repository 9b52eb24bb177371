/**
 * Reads who has what in a pool.
 *
 * Marks are read before holds: a mark is made with its hold, so one that is shown while its hold is not belongs to a
 * hold that has ended. If that was on purpose, the mark went with it, and the write that says that it is lost fails.
 */
import type { Layout } from '../../leases/layout.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { freeOf, type Usage } from './choose.js';
import { parseMark, type Mark } from './marks.js';
import type { NodeData } from '../../zookeeper/operations.js';
import {
  fitting,
  membersOf,
  parseHold,
  parsePool,
  type Member,
  type Pool,
  type PoolHold,
  type PoolRef,
} from './pool.js';

/** So many holds are shown, and so many members that rest. */
const SHOWN = 100;

/** A member that was lost. */
export interface Rest {
  readonly member: string;
  /** Epoch ms on the ensemble's clock; undefined while nobody has found the loss. */
  readonly until: number | undefined;
}

/** What a pool is set to. Neither numbers nor members: those are not told. */
interface ShownPool {
  readonly quarantineMs: number;
  readonly of?: number;
  readonly members?: readonly Member[];
}

/** What is shown of a pool. */
export interface PoolView {
  /** Undefined: there is none. */
  readonly pool: ShownPool | undefined;
  readonly total: number;
  readonly free: number;
  readonly heldCount: number;
  readonly restingCount: number;
  readonly waiterCount: number;
  readonly holds: readonly (PoolHold & { readonly member: string })[];
  readonly resting: readonly Rest[];
  readonly etag: string;
}

export const NO_POOL: PoolView = {
  pool: undefined,
  total: 0,
  free: 0,
  heldCount: 0,
  restingCount: 0,
  waiterCount: 0,
  holds: [],
  resting: [],
  etag: '"0"',
};

export function usageOf(marks: readonly string[], held: readonly string[]): Usage {
  const parsed = marks.flatMap((name) => {
    const mark = parseMark(name);
    return mark === undefined ? [] : [[mark.member, mark] as const];
  });
  return { held: new Set(held), marks: new Map(parsed) };
}

/**
 * For those who watch: many pools may be watched, the last state of each is kept, and members have up to 768 KiB, which
 * seldom change.
 */
export function withoutMembers(view: PoolView): PoolView {
  if (view.pool?.members === undefined) return view;
  return { ...view, pool: { quarantineMs: view.pool.quarantineMs } };
}

/** @param now epoch ms on the ensemble's clock */
export async function readPool(zk: BoundClient, layout: Layout, ref: PoolRef, now: number): Promise<PoolView> {
  return viewOf(zk, layout, ref, await zk.find(ref.path), now);
}

/**
 * @param node the pool's own, read on this connection before
 * @param now epoch ms on the ensemble's clock
 */
export async function viewOf(
  zk: BoundClient,
  layout: Layout,
  ref: PoolRef,
  node: NodeData | undefined,
  now: number,
): Promise<PoolView> {
  const pool = node === undefined ? undefined : parsePool(ref.name, node);
  if (node === undefined || pool === undefined) return NO_POOL;
  const directories = {
    holds: layout.poolHolds(ref.namespace, pool.id),
    marks: layout.poolMarks(ref.namespace, pool.id),
  };
  const [marks, held, line] = await Promise.all([
    zk.list(directories.marks),
    zk.list(directories.holds),
    zk.exists(layout.line('pool', ref.namespace, ref.name)),
  ]);
  const usage = usageOf(marks?.children ?? [], held?.children ?? []);
  const order = orderOf(pool);
  const heldNames = [...usage.held].sort(order);
  const lost = lostOf(pool, usage).sort((a, b) => order(a.member, b.member));
  const [nodes, rests] = await Promise.all([
    readNodes(
      zk,
      heldNames.slice(0, SHOWN).map((member) => `${directories.holds}/${member}`),
    ),
    readNodes(
      zk,
      lost.slice(0, SHOWN).map(({ name }) => `${directories.marks}/${name}`),
    ),
  ]);
  const holds = heldNames.slice(0, SHOWN).flatMap((member, i) => {
    const hold = nodes[i] === undefined ? undefined : parseHold(nodes[i].data);
    return hold === undefined ? [] : [{ ...hold, member }];
  });
  const resting = lost.slice(0, SHOWN).flatMap(({ member }, i): Rest[] => {
    const stat = rests[i]?.stat;
    if (stat === undefined) return [];
    const until = stat.version === 0 ? undefined : stat.mtime + pool.quarantineMs;
    return until !== undefined && until <= now ? [] : [{ member, until }];
  });
  const over = Math.min(lost.length, SHOWN) - resting.length;
  const unheld = freeOf(fitting(pool, []), usage);
  return {
    pool,
    total: membersOf(pool).length,
    free: pool.quarantineMs === 0 ? unheld + lostOf({ ...pool, quarantineMs: 1 }, usage).length : unheld + over,
    heldCount: usage.held.size,
    restingCount: lost.length - over,
    waiterCount: line?.numChildren ?? 0,
    holds,
    resting,
    etag: `"${node.stat.czxid}-${pool.version}-${held?.stat.pzxid ?? 0}-${marks?.stat.pzxid ?? 0}"`,
  };
}

/** The marks of members that were lost, and would be given out if they did not rest. */
function lostOf(pool: Pool, { held, marks }: Usage): Mark[] {
  if (pool.quarantineMs === 0) return [];
  return fitting(pool, []).flatMap(({ id }) => {
    const mark = held.has(id) ? undefined : marks.get(id);
    return mark?.token === undefined ? [] : [mark];
  });
}

/** Members in the order of the pool; those that were removed come last. */
function orderOf(pool: Pool): (a: string, b: string) => number {
  const index = new Map(membersOf(pool).map(({ id }, i) => [id, i]));
  const at = (id: string): number => index.get(id) ?? index.size;
  return (a, b) => at(a) - at(b) || (a < b ? -1 : 1);
}
