/** A group of many: what a replica reads of it at once, and what those who watch are shown of it. */
import { expect, test } from 'vitest';
import { EventReader } from '../../../support/http/event-stream.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { join, leaseFor, leave, type ShownGroup } from '../client.js';

const MIB = 1_048_576;
/** Read a hundred at once, of 5 KiB each: two such requests are a MiB. */
const MEMBERS = 450;
const SHOWN = 100;

const nameOf = (i: number): string => `m${String(i).padStart(3, '0')}`;

/** How many requests the replica's own session has had on their way at once, at most, that read many nodes. */
function mostReadsAtOnce({ gateway }: Replica): () => number {
  const { control } = gateway.context;
  const multiRead = control.multiRead.bind(control);
  let now = 0;
  let most = 0;
  control.multiRead = async (operations, deadline) => {
    if (operations.length < SHOWN) return multiRead(operations, deadline);
    most = Math.max(most, (now += 1));
    return multiRead(operations, deadline).finally(() => (now -= 1));
  };
  return () => most;
}

test(
  'a stream of many members reads them within the budget, and shows the first hundred, whoever goes',
  { timeout: scaled(60_000) },
  async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_READ_BYTES_AT_ONCE: String(MIB) } });
    const lease = await leaseFor(replica);
    const value = 'a'.repeat(3_000);
    for (let i = 0; i < MEMBERS; i += 50)
      await Promise.all(
        Array.from({ length: 50 }, (_, j) =>
          join(replica, 'many', nameOf(i + j), lease, { value: `${value}${i + j}` }),
        ),
      );
    const most = mostReadsAtOnce(replica);
    await using stream = await EventReader.open(replica.url, '/v1/groups/many', {});
    const shows = async (first: number): Promise<void> => {
      const names = Array.from({ length: SHOWN }, (_, i) => nameOf(first + i));
      let state: ShownGroup;
      do state = (await stream.next()).data as ShownGroup;
      while (state.memberCount !== MEMBERS - first);
      expect(state.members.map(({ member }) => member)).toEqual(names);
      expect(state.members.map((member) => member.value)).toEqual(names.map((_, i) => `${value}${first + i}`));
    };
    await shows(0);
    expect(most()).toBe(2);
    // Further than any whose values were kept.
    const gone = 250;
    await Promise.all(Array.from({ length: gone }, (_, i) => leave(replica, 'many', nameOf(i), lease)));
    await shows(gone);
  },
);
