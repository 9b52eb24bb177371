/** What a lease is shown of one thing that it holds or waits for. */
import type { LineKind } from '../../leases/layout.js';

/** What can be held: a place in a line, a membership, or a member of a pool. */
export type HoldKind = LineKind | 'group' | 'double-barrier';

export interface OwnHold {
  kind: HoldKind;
  name: string;
  /** Of a membership: the member's name; of a pool: the member that is held. */
  member?: string;
  path: string;
  held: boolean;
  /**
   * A place that the line admits, and that is granted as soon as its request is repeated: the wait of the last one is
   * over.
   */
  isTurn?: boolean;
  holdId: string;
  requestId: string;
  fencingToken: number;
  /** Epoch ms on the ensemble's clock. */
  since: number;
}

/** So many directories are asked about at once. */
const READS_AT_ONCE = 256;

export function inBatches<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / READS_AT_ONCE) }, (_, i) =>
    items.slice(i * READS_AT_ONCE, (i + 1) * READS_AT_ONCE),
  );
}

export function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
