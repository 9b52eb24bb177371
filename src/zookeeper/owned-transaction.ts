/** A transaction whose operations have owners: when it fails, it tells whose operation did it. */
import type { BoundWriter } from './bound.js';
import { isReason, ZooKeeperError } from './errors.js';
import type { MultiOperation } from './operations.js';

/** @typeParam Owner what one is told by: a thing that is written, or the name of a condition */
export class OwnedTransaction<Owner> {
  readonly operations: MultiOperation[] = [];
  /** Of the operation at the same index. */
  readonly #owners: Owner[] = [];

  add(owner: Owner, ...operations: readonly MultiOperation[]): this {
    for (const operation of operations) {
      this.operations.push(operation);
      this.#owners.push(owner);
    }
    return this;
  }

  /** Whose operation the server refused; undefined when it is not known to have refused one of them: no reply, say. */
  culpritOf(error: unknown): Owner | undefined {
    const index = error instanceof ZooKeeperError ? error.failedIndex : undefined;
    return index === undefined ? undefined : this.#owners[index];
  }

  /** The operations of all but this owner. */
  without(owner: Owner): MultiOperation[] {
    return this.operations.filter((_, index) => this.#owners[index] !== owner);
  }
}

/**
 * Does all of it; where what belongs to `optional` is not there any more, the rest.
 * @throws what the rest throws
 */
export async function multiWithOptional<Owner>(
  zk: BoundWriter,
  transaction: OwnedTransaction<Owner>,
  optional: Owner,
): Promise<void> {
  try {
    await zk.multi(transaction.operations);
  } catch (error) {
    if (!isReason(error, 'NO_NODE') || transaction.culpritOf(error) !== optional) throw error;
    await zk.multi(transaction.without(optional));
  }
}
