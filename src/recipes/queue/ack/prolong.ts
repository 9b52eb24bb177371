/** Prolongs claims that end by time (`settling.ts`). */
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import { isReason, orUnknown, unless } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { claimPath, decodeClaim, encodeClaim, recordPath } from '../claim/entry.js';
import type { Queue } from '../queue.js';
import { settlings, type Settled } from './settling.js';

export interface Prolonged {
  result: Settled;
  until: number | undefined;
}

/**
 * As `acknowledge`. Never shortens a claim, so that what its claimId says stays true: until then it does not end by
 * time.
 * @param claimMs counts from now
 * @returns with each until when it lasts, epoch ms on the ensemble's clock; undefined: as long as the lease
 */
export async function prolong(
  queue: Queue,
  lease: Lease,
  claimIds: readonly string[],
  claimMs: number,
  { deadline, requester }: Awaited,
): Promise<Prolonged[]> {
  const wanted = Math.ceil((await queue.ensembleNow(deadline)) + claimMs);
  const results: Prolonged[] = claimIds.map(() => ({ result: 'lost', until: undefined }));
  const open = settlings(queue, lease, claimIds);
  const onSession = async (session: LeaseSession): Promise<void> => {
    const nodes = await session.readToWrite(
      queue.paths.data,
      () => Promise.all(open.map(({ path }) => unless(session.getData(claimPath(path), deadline), 'NO_NODE'))),
      (found) => found.every((node) => node !== undefined),
      deadline,
    );
    await Promise.all(
      open.map(async ({ claim, path, index }, i) => {
        let node = nodes[i];
        for (;;) {
          const record = node === undefined ? undefined : decodeClaim(node.data);
          if (node === undefined || record === undefined) return;
          const until = record.until === undefined ? undefined : Math.max(record.until, wanted);
          const data = encodeClaim({ ...record, until, first: record.first ?? record.until });
          const operations: MultiOperation[] = [
            queue.paths.exists,
            { type: 'check', path: recordPath(path), version: claim.version },
            { type: 'setData', path: claimPath(path), data, version: node.stat.version },
          ];
          try {
            await session.multi(operations, deadline);
            results[index] = { result: 'done', until };
            return;
          } catch (error) {
            if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
            if (error.reason !== 'BAD_VERSION' || error.failedIndex !== operations.length - 1) return;
            // Prolonged by somebody else meanwhile, maybe for longer.
            node = await unless(session.getData(claimPath(path), deadline), 'NO_NODE');
          }
        }
      }),
    );
  };
  const prolonging = queue.context.leases.sessions.useRepeatedly(lease, deadline, onSession, requester);
  await orUnknown(prolonging, () => results.some(({ result }) => result === 'done'));
  return results;
}
