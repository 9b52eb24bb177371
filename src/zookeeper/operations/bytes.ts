/** How much of a packet the operations of a transaction take. */
import type { MultiOperation } from '../operations.js';

/** A transaction of many requests is kept smaller than a packet may be: it holds up everybody behind it. */
export const GROUP_BYTES_MAX = 256 * 1024;
/** Headers, lengths, versions and the ACL of one operation. */
export const OPERATION_BYTES = 96;

export function bytesOf(operation: MultiOperation): number {
  const data = operation.type === 'create' || operation.type === 'setData' ? (operation.data?.length ?? 0) : 0;
  return OPERATION_BYTES + operation.path.length + data;
}

export function bytesOfAll(operations: readonly MultiOperation[]): number {
  return operations.reduce((sum, operation) => sum + bytesOf(operation), 0);
}
