/** The bounds of one transaction: ZooKeeper takes a packet of at most 1 MiB (`jute.maxbuffer`), path names and all. */
import { PosternError } from '../../errors.js';

/**
 * What one transaction may have, so that with the ensemble's own additions it stays below 1 MiB; and so that a message
 * of that size can be moved later, when it has a longer header and goes with the marks of its lease.
 */
export const TRANSACTION_BYTES_MAX = 960 * 1024;
/** Of many requests; see also `GROUP_BYTES_MAX`. */
export const GROUP_OPERATIONS_MAX = 400;
/** Messages that are settled or deleted in one transaction: a few operations without data each. */
export const MESSAGES_AT_ONCE = 200;

/** @throws PosternError `too-large`, before anything is sent */
export function checkTransaction(bytes: number): void {
  if (bytes <= TRANSACTION_BYTES_MAX) return;
  throw new PosternError(
    'too-large',
    `The messages take ${bytes} bytes in ZooKeeper; one request is one transaction, which takes at most ${TRANSACTION_BYTES_MAX}. Push them in several requests.`,
    { members: { maxBytes: TRANSACTION_BYTES_MAX, bytes } },
  );
}
