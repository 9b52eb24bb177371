/** What a change of leader costs, and how soon everybody knows, with a thousand observers over two replicas. */
import { afterAll, describe, expect, test } from 'vitest';
import { campaign, leaseFor, speak } from '../client.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { STANDING_WATCHES, startPair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const STREAMS_PER_REPLICA = 250;
const POLLS_PER_REPLICA = 250;
const NAME = 'boss';
/** Nobody keeps the leader's lease alive while a thousand line up to observe. */
const TTL_MS = 60_000;

interface Change {
  change: string;
  observers: number;
  medianMs: number;
  p99Ms: number;
  lastMs: number;
  notifications: string;
}

const changes: Change[] = [];

describe('a change of leader with 1 000 observers', () => {
  test(
    'reaches every long poll and every stream, by one notification per replica',
    { timeout: scaled(180_000) },
    async () => {
      await using pair = await startPair();
      const replicas = [pair.a, pair.b];
      let leader = await leaseFor(pair.a, { ttlMs: TTL_MS });
      await campaign(pair.a, NAME, leader);
      await using streams = new Streams();
      await Promise.all(replicas.map((replica) => streams.open(replica, leader.leaseId)));

      const resign = (): Promise<unknown> => speak(pair.a, NAME, 'resign', leader);
      const endLease = (): Promise<unknown> => pair.a.endLease(leader);
      for (const [change, next, leave] of [
        ['resigned, the next one waits at the other replica', pair.b, resign],
        ['resigned, the next one waits at the same replica', pair.a, resign],
        ['lease ended, the next one waits', pair.b, endLease],
        ['resigned, nobody waits for the next one', undefined, resign],
      ] as [string, Replica | undefined, () => Promise<unknown>][]) {
        const successor = await leaseFor(pair.a, { ttlMs: TTL_MS });
        const elected = campaign(next ?? pair.a, NAME, successor, next === undefined ? {} : { waitMs: 50_000 });
        await eventually('the successor stands', async () => {
          const { body } = await pair.a.call('GET', `/v1/elections/${NAME}`);
          return (body as { candidateCount: number }).candidateCount === 2;
        });
        const polls = replicas.flatMap((replica) => pollAll(replica, leader));
        for (const replica of replicas) {
          const campaigns = replica === next ? 1 : 0; // it has a watch of its own, beside that of all observers
          await eventually('everybody waits, at one watch', async () => {
            const inFlight = await replica.metric('postern_http_requests_in_flight');
            const waiting = STREAMS_PER_REPLICA + POLLS_PER_REPLICA + campaigns;
            return inFlight === waiting && (await watches(replica)) === 1 + campaigns;
          });
        }
        const before = await notifications(replicas);
        const startedAt = performance.now();
        await leave();
        const answeredAt = await Promise.all(polls);
        const seenAt = await streams.untilLedBy(successor.leaseId);
        await elected;
        // Until the new leader is watched, so that whatever its grant may notify of is counted.
        for (const replica of replicas)
          await eventually('the new leader is watched', async () => (await watches(replica)) === 1);
        const received = (await notifications(replicas)).map((count, i) => count - (before[i] as number));
        expect(received).toEqual([1, 1]);
        const times = [...answeredAt, ...seenAt].map((at) => at - startedAt).sort((a, b) => a - b);
        expect(times).toHaveLength(2 * (STREAMS_PER_REPLICA + POLLS_PER_REPLICA));
        changes.push({
          change,
          observers: times.length,
          medianMs: rank(times, 0.5),
          p99Ms: rank(times, 0.99),
          lastMs: rank(times, 1),
          notifications: received.join(' + '),
        });
        leader = successor;
      }
      // Each change was told once: the leader's grant is none of its own.
      expect(streams.counts()).toEqual(new Set([1 + changes.length]));
    },
  );

  afterAll(() => console.table(changes));
});

class Streams implements AsyncDisposable {
  readonly #readers: EventReader[] = [];

  async open(replica: Replica, leaseId: string): Promise<void> {
    const opened = await Promise.all(
      Array.from({ length: STREAMS_PER_REPLICA }, () => EventReader.open(replica.url, `/v1/elections/${NAME}/events`)),
    );
    this.#readers.push(...opened);
    await Promise.all(opened.map((reader) => reader.next()));
    expect(new Set(opened.map((reader) => ledBy(reader)))).toEqual(new Set([leaseId]));
  }

  /** When each stream told of this leader. */
  untilLedBy(leaseId: string): Promise<number[]> {
    return eventually('every stream has told of the leader', () => {
      const told = this.#readers.map((reader) => (ledBy(reader) === leaseId ? reader.lastEventAt : undefined));
      return told.every((at) => at !== undefined) && told;
    });
  }

  /** How many events the streams have had. */
  counts(): Set<number> {
    return new Set(this.#readers.map(({ seen }) => seen.length));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#readers.map((reader) => reader[Symbol.asyncDispose]()));
  }
}

function ledBy(reader: EventReader): string | undefined {
  return (reader.seen.at(-1)?.data as { leader: { leaseId: string } | null } | undefined)?.leader?.leaseId;
}

/** Long polls for another leader; each comes to the time of its answer. */
function pollAll(replica: Replica, { leaseId }: LeaseHandle): Promise<number>[] {
  const etag = replica.call('GET', `/v1/elections/${NAME}`).then(({ headers }) => String(headers['etag']));
  return Array.from({ length: POLLS_PER_REPLICA }, async () => {
    const headers = { 'if-none-match': await etag };
    const reply = await replica.call('GET', `/v1/elections/${NAME}?waitMs=50000`, { headers });
    const at = performance.now();
    expect(reply.status).toBe(200);
    expect((reply.body as { leader: { leaseId: string } }).leader.leaseId).not.toBe(leaseId);
    return at;
  });
}

/** Those that are about this test. */
async function watches(replica: Replica): Promise<number> {
  return (await replica.metric('postern_watches')) - STANDING_WATCHES;
}

function notifications(replicas: readonly Replica[]): Promise<number[]> {
  return Promise.all(replicas.map((replica) => replica.metric('postern_watch_events_total')));
}

function rank(sorted: readonly number[], share: number): number {
  return Math.round(sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] as number);
}
