/**
 * Where everything lies in ZooKeeper, below the configured root:
 *
 *   <root>/format                                      the format of all this: see wiring/data-format.ts (persistent)
 *   <root>/fencing-floors/<n>                          the fencing floor: see leases/fencing-floor.ts (persistent)
 *   <root>/lease-key                                   the sealing key, if none is configured (persistent)
 *   <root>/clock                                       written to learn the ensemble's time, and for nothing else
 *                                                      (persistent)
 *   <root>/housekeeper                                 the replica that cleans up (ephemeral, of its control session)
 *   <root>/scheduler                                   the replica that fires schedules (as `housekeeper`)
 *   <root>/schedules/<namespace>/<name>                a schedule, and how far it is settled; beside the namespaces,
 *                                                      because one replica watches all of them (persistent)
 *   <root>/replicas                                    its version is the last question about contention (persistent)
 *   <root>/replicas/<sessionId>                        a process of a replica, with its last answer (ephemeral, of its
 *                                                      control session)
 *   <root>/revocations/<leaseId>/<holdId>              a hold asked back, or taken away (persistent, until the lease
 *                                                      has ended)
 *   <root>/pending-revocations/<breakAt>.<leaseId>.<holdId>        the same while it is pending: what replicas watch
 *                                                                  (persistent)
 *   <root>/reservations/<namespace>/<id>               a lock reserved, or wanted, until a time: what replicas watch
 *                                                      (persistent)
 *   <root>/ns/<namespace>/leases/<bb>/<leaseId>        one per lease (ephemeral, of the lease's session)
 *   <root>/ns/<namespace>/requests/<bb>/<hash>         finds a lease again by its creator's requestId (ephemeral)
 *   <root>/ns/<namespace>/locks/<name>/_c_<guid>-lock-<sequence>   a contender in line (ephemeral), also under rwlocks,
 *                                                                  semaphores, elections, pool-lines
 *                                                      (there with a tail: see recipes/line/candidate-tail.ts)
 *   <root>/ns/<namespace>/lock-rooms/<name>/_c_<guid>-prio<p>-<sequence>   see recipes/lock/priority.ts (ephemeral)
 *   <root>/ns/<namespace>/lock-delays/locks/<name>/<holdId>        a hold with a lock-delay (persistent, outlives it by
 *                                                                  the delay), also rwlocks
 *   <root>/ns/<namespace>/lock-delays/leases/<leaseId>             the lease asked for lock-delays (ephemeral)
 *   <root>/ns/<namespace>/groups/<name>/<member>       a member of a group (ephemeral)
 *   <root>/ns/<namespace>/shares/<group>/<of>          how that many parts were last divided among the group's
 *                                                      members (persistent)
 *   <root>/ns/<namespace>/group-messages/<name>        which messages to a group there are (persistent), with them
 *                                                      below it: see recipes/group/messages/log.ts
 *   <root>/ns/<namespace>/group-message-marks/<bb>/<hash>          a repeatable message to a group (persistent, for
 *                                                                  some minutes)
 *   <root>/ns/<namespace>/config/<key>                 a configuration key, which may have slashes (persistent)
 *   <root>/ns/<namespace>/transactions/<bb>/<id>       a transaction (persistent), with its participants below it
 *                                                      (ephemeral)
 *   <root>/ns/<namespace>/open-transactions/<id>       marks a transaction to be looked after (persistent)
 *   <root>/ns/<namespace>/barriers/<name>              a raised barrier (persistent)
 *   <root>/ns/<namespace>/barrier-turns/<bb>           its version counts the raisings and liftings of all barriers
 *                                                      with that hash (persistent)
 *   <root>/ns/<namespace>/queues/<name>                the id and configuration of the queue with that name
 *                                                      (persistent)
 *   <root>/ns/<namespace>/queue-turns/<bb>             its version counts the creations, configurations and
 *                                                      deletions of all queues with that hash (persistent)
 *   <root>/ns/<namespace>/queue-data/<id>              its content: see recipes/queue/paths.ts (persistent)
 *   <root>/ns/<namespace>/runs/<name>                  the last occurrences of a job, and who runs them (persistent)
 *   <root>/ns/<namespace>/pools/<name>                 the id and the members of a pool (persistent)
 *   <root>/ns/<namespace>/pool-turns/<bb>              as `schedule-turns`, of pools (persistent)
 *   <root>/ns/<namespace>/pool-held/<id>/<member>      who has a member (ephemeral, of the lease's session)
 *   <root>/ns/<namespace>/pool-marks/<id>/<mark>       remembers a member: see recipes/pool/marks.ts (persistent)
 *   <root>/ns/<namespace>/schedule-turns/<bb>          its version counts the writes and removals of all schedules
 *                                                      with that hash (persistent)
 *   <root>/ns/<namespace>/counters/<name>              a counter (persistent)
 *   <root>/ns/<namespace>/counter-marks/<bb>/<hash>    as `group-message-marks`, of a counter (persistent)
 *   <root>/ns/<namespace>/double-barriers/<name>/<member>          a member of a double barrier (ephemeral), and its
 *                                                                  round, `ready` (persistent)
 *
 * `bb` are the first two hex digits: 256 directories, so that no listing exceeds a few thousand names at a million
 * leases. Names were checked at the edge and are safe as path components.
 */
import { createHash } from 'node:crypto';
import { baseName, join, parentOf } from '../zookeeper/paths.js';

export const DEFAULT_NAMESPACE = 'default';

/** First characters of an id that name its directory. */
export const BUCKET_DIGITS = 2;

/** The kinds of lines of contenders; their directories are named by the plurals, except for pools. */
export const LINE_KINDS = ['lock', 'rwlock', 'semaphore', 'election', 'pool'] as const;
export type LineKind = (typeof LINE_KINDS)[number];
export const ROOM = 'lock-room' as const; // in front of the line of a lock by priority
export type PlaceKind = LineKind | typeof ROOM;

/** The kinds in which holds may have a lock-delay. */
export const DELAYED_KINDS = ['lock', 'rwlock'] as const satisfies readonly LineKind[];

const [LOCK_DELAYS, POOL_LINES, POOL_MARKS] = ['lock-delays', 'pool-lines', 'pool-marks'] as const;

/** The directory of the lock-delay marks of the line in this directory. */
export function lockDelaysOf(line: string): string {
  const lines = parentOf(line);
  return join(join(join(parentOf(lines), LOCK_DELAYS), baseName(lines)), baseName(line));
}

/** The directory of the marks of the holds in this directory of a pool. */
export const poolMarksOf = (holds: string): string =>
  join(join(parentOf(parentOf(holds)), POOL_MARKS), baseName(holds));

export class Layout {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  get format(): string {
    return join(this.root, 'format');
  }

  get leaseKey(): string {
    return join(this.root, 'lease-key');
  }

  get clock(): string {
    return join(this.root, 'clock');
  }

  get housekeeper(): string {
    return join(this.root, 'housekeeper');
  }

  get scheduler(): string {
    return join(this.root, 'scheduler');
  }

  get schedules(): string {
    return join(this.root, 'schedules');
  }

  schedulesOf(namespace: string): string {
    return join(this.schedules, namespace);
  }

  schedule(namespace: string, name: string): string {
    return join(this.schedulesOf(namespace), name);
  }

  get replicas(): string {
    return join(this.root, 'replicas');
  }

  replica(sessionId: bigint): string {
    return join(this.replicas, BigInt.asUintN(64, sessionId).toString(16));
  }

  get revocations(): string {
    return join(this.root, 'revocations');
  }

  revocationsOf(leaseId: string): string {
    return join(this.revocations, leaseId);
  }

  revocation(leaseId: string, holdId: string): string {
    return join(this.revocationsOf(leaseId), holdId);
  }

  get pendingRevocations(): string {
    return join(this.root, 'pending-revocations');
  }

  /** The reservations of all namespaces. */
  get reservations(): string {
    return join(this.root, 'reservations');
  }

  reservationsOf(namespace: string): string {
    return join(this.reservations, namespace);
  }

  reservation(namespace: string, id: string): string {
    return join(this.reservationsOf(namespace), id);
  }

  get namespaces(): string {
    return join(this.root, 'ns');
  }

  namespace(namespace: string): string {
    return join(this.namespaces, namespace);
  }

  leases(namespace: string): string {
    return join(this.namespace(namespace), 'leases');
  }

  leaseBucket(namespace: string, leaseId: string): string {
    return join(this.leases(namespace), leaseId.slice(0, BUCKET_DIGITS));
  }

  lease(namespace: string, leaseId: string): string {
    return join(this.leaseBucket(namespace, leaseId), leaseId);
  }

  requests(namespace: string): string {
    return join(this.namespace(namespace), 'requests');
  }

  request(namespace: string, principal: string, requestId: string): string {
    const asked = JSON.stringify(['lease', namespace, principal, requestId]);
    const hash = createHash('sha256').update(asked).digest('hex').slice(0, 40);
    return join(this.requests(namespace), hash.slice(0, BUCKET_DIGITS), hash);
  }

  /** Everything about lock-delays in a namespace: a directory for the lines of each kind, named as by `lines`. */
  lockDelays(namespace: string): string {
    return join(this.namespace(namespace), LOCK_DELAYS);
  }

  delayedLines(kind: LineKind, namespace: string): string {
    return join(this.lockDelays(namespace), `${kind}s`);
  }

  /** Exists while a lease lives that has asked for lock-delays. */
  delayedLease(namespace: string, leaseId: string): string {
    return join(this.lockDelays(namespace), 'leases', leaseId);
  }

  /** The directory of all lines of one kind. */
  lines(kind: PlaceKind, namespace: string): string {
    return join(this.namespace(namespace), kind === 'pool' ? POOL_LINES : `${kind}s`);
  }

  /** The directory in which the contenders for `name` stand. */
  line(kind: PlaceKind, namespace: string, name: string): string {
    return join(this.lines(kind, namespace), name);
  }

  groups(namespace: string): string {
    return join(this.namespace(namespace), 'groups');
  }

  group(namespace: string, name: string): string {
    return join(this.groups(namespace), name);
  }

  /** The shares of all groups; beside the groups, because every node in a group's directory is a member. */
  allShares(namespace: string): string {
    return join(this.namespace(namespace), 'shares');
  }

  sharesOf(namespace: string, group: string): string {
    return join(this.allShares(namespace), group);
  }

  shares(namespace: string, group: string, of: number): string {
    return join(this.sharesOf(namespace, group), String(of));
  }

  /** The logs of the messages to all groups; beside the groups, because a log outlives the members. */
  allGroupMessages(namespace: string): string {
    return join(this.namespace(namespace), 'group-messages');
  }

  groupMessages(namespace: string, group: string): string {
    return join(this.allGroupMessages(namespace), group);
  }

  groupMessageMarks(namespace: string): string {
    return join(this.namespace(namespace), 'group-message-marks');
  }

  /** As `counterMark`. */
  groupMessageMark(namespace: string, id: string): string {
    return this.#mark(this.groupMessageMarks(namespace), id);
  }

  /** The directory of all keys of the configuration. */
  config(namespace: string): string {
    return join(this.namespace(namespace), 'config');
  }

  configKey(namespace: string, key: string): string {
    return join(this.config(namespace), key);
  }

  transactions(namespace: string): string {
    return join(this.namespace(namespace), 'transactions');
  }

  transaction(namespace: string, id: string): string {
    return join(this.transactions(namespace), id.slice(0, BUCKET_DIGITS), id);
  }

  openTransactions(namespace: string): string {
    return join(this.namespace(namespace), 'open-transactions');
  }

  openTransaction(namespace: string, id: string): string {
    return join(this.openTransactions(namespace), id);
  }

  barriers(namespace: string): string {
    return join(this.namespace(namespace), 'barriers');
  }

  barrier(namespace: string, name: string): string {
    return join(this.barriers(namespace), name);
  }

  /** The node that every raising and lifting of a barrier with this hash writes: one per bucket, and they stay. */
  barrierTurn(namespace: string, name: string): string {
    return this.#turn(namespace, 'barrier-turns', name);
  }

  /** The directory of the names of all queues. */
  queues(namespace: string): string {
    return join(this.namespace(namespace), 'queues');
  }

  queue(namespace: string, name: string): string {
    return join(this.queues(namespace), name);
  }

  /** As `barrierTurn`: written by whatever creates, configures or deletes a queue with this hash. */
  queueTurn(namespace: string, name: string): string {
    return this.#turn(namespace, 'queue-turns', name);
  }

  /** The queues' contents, under ids of their own: a name that is used again begins empty. */
  queueContents(namespace: string): string {
    return join(this.namespace(namespace), 'queue-data');
  }

  queueData(namespace: string, id: string): string {
    return join(this.queueContents(namespace), id);
  }

  runs(namespace: string): string {
    return join(this.namespace(namespace), 'runs');
  }

  run(namespace: string, name: string): string {
    return join(this.runs(namespace), name);
  }

  pools(namespace: string): string {
    return join(this.namespace(namespace), 'pools');
  }

  pool(namespace: string, name: string): string {
    return join(this.pools(namespace), name);
  }

  poolTurn(namespace: string, name: string): string {
    return this.#turn(namespace, 'pool-turns', name);
  }

  /** By id: a name that is used again begins with none. */
  allPoolHolds(namespace: string): string {
    return join(this.namespace(namespace), 'pool-held');
  }

  poolHolds(namespace: string, id: string): string {
    return join(this.allPoolHolds(namespace), id);
  }

  allPoolMarks(namespace: string): string {
    return join(this.namespace(namespace), POOL_MARKS);
  }

  poolMarks(namespace: string, id: string): string {
    return join(this.allPoolMarks(namespace), id);
  }

  /** As `barrierTurn`: written by whatever writes or removes a schedule with this hash. */
  scheduleTurn(namespace: string, name: string): string {
    return this.#turn(namespace, 'schedule-turns', name);
  }

  counters(namespace: string): string {
    return join(this.namespace(namespace), 'counters');
  }

  counter(namespace: string, name: string): string {
    return join(this.counters(namespace), name);
  }

  counterMarks(namespace: string): string {
    return join(this.namespace(namespace), 'counter-marks');
  }

  /** @param id identifies the operation; its hash is in hex digits: as many directories as elsewhere */
  counterMark(namespace: string, id: string): string {
    return this.#mark(this.counterMarks(namespace), id);
  }

  doubleBarriers(namespace: string): string {
    return join(this.namespace(namespace), 'double-barriers');
  }

  doubleBarrier(namespace: string, name: string): string {
    return join(this.doubleBarriers(namespace), name);
  }

  #mark(marks: string, id: string): string {
    const hash = createHash('sha256').update(id).digest('hex').slice(0, 32);
    return join(marks, hash.slice(0, BUCKET_DIGITS), hash);
  }

  #turn(namespace: string, of: string, name: string): string {
    const hash = createHash('sha256').update(name).digest('hex');
    return join(join(this.namespace(namespace), of), hash.slice(0, BUCKET_DIGITS));
  }
}
