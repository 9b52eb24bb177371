/** As many things as one stream may tell of, and one more; as many streams as a principal may have of them. */
import { expect, test } from 'vitest';
import { EventReader } from '../support/http/event-stream.js';
import { eventually } from '../support/eventually.js';
import { manyLocks } from '../support/many-locks.js';
import { startReplica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';

const MOST = 10_000;
const TOO_MANY = {
  event: 'problem',
  data: { status: 422, code: 'invalid', retryable: false, maxThings: MOST, errors: [{ field: 'watch' }] },
};

test(
  'a prefix has ten thousand things behind it, and with one more a problem',
  { timeout: scaled(90_000) },
  async () => {
    await using replica = await startReplica();
    const [lease] = await manyLocks(replica, MOST);
    const namesOf = (stream: EventReader): Set<string> => {
      const told = stream.seen.flatMap(({ event, data }) => (event === 'state' ? data.items : [data])) as {
        name: string;
      }[];
      return new Set(told.map(({ name }) => name));
    };
    const open = (path: string): Promise<EventReader> => EventReader.open(replica.url, path);
    await using watched = await open('/v1/events?watch=lock:*,rwlock:*,election:*');
    await using listed = await open('/v1/locks');
    for (const stream of [watched, listed])
      await eventually('all are told of', () => namesOf(stream).size === MOST, { withinMs: scaled(30_000) });
    // Half of what a replica watches is for one principal: two and a half times as many.
    await using third = await open('/v1/events?watch=lock:*');
    expect(await third.next()).toMatchObject({
      event: 'problem',
      data: { status: 503, code: 'overloaded', limit: 'maxWatchedKeys', maxWatchedKeys: 25_000 },
    });

    await replica.hold('lock-one-more', lease);
    for (const stream of [watched, listed]) {
      await eventually('the stream has ended', () => stream.ended, { withinMs: scaled(30_000) });
      expect(stream.seen.at(-1)).toMatchObject(TOO_MANY);
      expect(stream.seen.filter(({ event }) => event === 'problem')).toHaveLength(1);
    }
    await eventually('there is room again', async () => {
      await using again = await open('/v1/events?watch=lock:*');
      expect(await again.next()).toMatchObject(TOO_MANY);
      await eventually('the stream has ended', () => again.ended);
      expect(again.seen).toHaveLength(1);
      return true;
    });
    await using some = await open('/v1/events?watch=lock:lock-09*');
    await eventually('those that begin so are told of', () => namesOf(some).size === 1_000);
  },
);
