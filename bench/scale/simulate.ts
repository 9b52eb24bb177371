/**
 * So many replicas in front of one leader: a simulation by events.
 *
 *   writes arrive at random ─┬─▶ a replica gathers ─▶ at most two transactions of it under way ─┬─▶ the leader's queue
 *                            └─▶ on the session of a lease: each by itself, at once ────────────┘
 *
 * The leader works on one transaction after the other, and its cores divide the time that one takes, as its stages are
 * threads of their own. The way there and back, the votes and the log are a delay that only the transaction itself
 * waits for: so transactions are answered in the order in which they were sent. A replica whose oldest write has waited
 * for too long refuses what comes, as the gateway does (src/zookeeper/connection/backlog-limit.ts).
 */
import { randomFrom } from '../../test/support/random.js';
import { quantile } from '../statistics.js';

/** As in src/zookeeper/group-commit.ts. */
const IN_FLIGHT_MAX = 2;
const WRITES_MAX = 256;
const REFUSED_BEHIND_MS = 500;
const SEED = 1;
/** Of the simulated time: what is answered before is not counted. */
const WARM_UP_SHARE = 0.2;

export interface Leader {
  readonly perTransactionUs: number;
  readonly perWriteUs: number;
  readonly cores: number;
  readonly delayMs: number;
}

export interface Load {
  readonly replicas: number;
  /** Writes that the clients of one replica want in a second. */
  readonly perReplica: number;
  /** Of these: what has to be done on the session of a lease, and so shares no transaction. */
  readonly alone: number;
}

export interface Simulated {
  /** Writes a second. */
  readonly done: number;
  /** Of all writes. */
  readonly refused: number;
  /** Writes. */
  readonly perTransaction: number;
  /** ms from a write's arrival at a replica to its answer. */
  readonly p50: number;
  readonly p99: number;
}

interface Replica {
  /** When those arrived that wait for a transaction; the first `gone` have been sent. */
  arrivals: number[];
  gone: number;
  inFlight: number;
}

interface Transaction {
  /** Undefined: of a lease's session. */
  readonly replica: Replica | undefined;
  readonly arrivals: readonly number[];
  readonly answeredAt: number;
}

/** @param lengthMs of simulated time */
export function simulate(leader: Leader, { replicas, perReplica, alone }: Load, lengthMs: number): Simulated {
  const random = randomFrom(SEED);
  const all = Array.from({ length: replicas }, (): Replica => ({ arrivals: [], gone: 0, inFlight: 0 }));
  const sent: Transaction[] = [];
  const counted = { transactions: 0, arrived: 0, refused: 0, waits: [] as number[] };
  let [answered, leaderFreeAt, arrivesAt] = [0, 0, 0];

  const send = (replica: Replica | undefined, arrivals: readonly number[], now: number): void => {
    const takesMs = (leader.perTransactionUs + leader.perWriteUs * arrivals.length) / leader.cores / 1_000;
    leaderFreeAt = Math.max(leaderFreeAt, now) + takesMs;
    sent.push({ replica, arrivals, answeredAt: leaderFreeAt + leader.delayMs });
  };
  const gather = (replica: Replica, now: number): void => {
    if (replica.inFlight === IN_FLIGHT_MAX || replica.gone === replica.arrivals.length) return;
    const arrivals = replica.arrivals.slice(replica.gone, replica.gone + WRITES_MAX);
    replica.gone += arrivals.length;
    if (replica.gone === replica.arrivals.length) [replica.arrivals, replica.gone] = [[], 0];
    replica.inFlight += 1;
    send(replica, arrivals, now);
  };

  while (arrivesAt < lengthMs) {
    const next = sent[answered];
    if (next !== undefined && next.answeredAt <= arrivesAt) {
      answered += 1;
      if (next.replica !== undefined) {
        next.replica.inFlight -= 1;
        gather(next.replica, next.answeredAt);
      }
      if (next.answeredAt < WARM_UP_SHARE * lengthMs) continue;
      counted.transactions += 1;
      for (const arrivedAt of next.arrivals) counted.waits.push(next.answeredAt - arrivedAt);
      continue;
    }
    const replica = all[Math.floor(random() * replicas)] as Replica;
    counted.arrived += 1;
    // A replica takes the answers of its leases for the same sign as those of its own session.
    const waited = arrivesAt - Math.min(replica.arrivals[replica.gone] ?? arrivesAt, next?.arrivals[0] ?? arrivesAt);
    if (waited > REFUSED_BEHIND_MS) counted.refused += 1;
    else if (random() < alone) send(undefined, [arrivesAt], arrivesAt);
    else replica.arrivals.push(arrivesAt);
    gather(replica, arrivesAt);
    arrivesAt -= (Math.log(1 - random()) / (replicas * perReplica)) * 1_000;
  }
  const { waits, transactions, arrived, refused } = counted;
  return {
    done: waits.length / (((1 - WARM_UP_SHARE) * lengthMs) / 1_000),
    refused: refused / arrived,
    perTransaction: waits.length / transactions,
    p50: quantile(waits, 0.5),
    p99: quantile(waits, 0.99),
  };
}
