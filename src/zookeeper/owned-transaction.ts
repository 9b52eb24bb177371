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

  /** The same without what belongs to this owner. */
  without(owner: Owner): OwnedTransaction<Owner> {
    const rest = new OwnedTransaction<Owner>();
    for (const [index, operation] of this.operations.entries())
      if (this.#owners[index] !== owner) rest.add(this.#owners[index] as Owner, operation);
    return rest;
  }
}

/**
 * Does all of it; where what belongs to an owner of `optional` is not there any more, the rest.
 * @throws what the rest throws
 */
export async function multiWithOptional<Owner>(
  zk: BoundWriter,
  transaction: OwnedTransaction<Owner>,
  ...optional: readonly Owner[]
): Promise<void> {
  try {
    await zk.multi(transaction.operations);
  } catch (error) {
    const culprit = transaction.culpritOf(error);
    if (!isReason(error, 'NO_NODE') || culprit === undefined || !optional.includes(culprit)) throw error;
    await multiWithOptional(zk, transaction.without(culprit), ...optional);
  }
}
