/**
 * Schedules: at the times of a cron expression, in a time zone, a message is pushed to a queue.
 *
 * Guarantee: each occurrence is pushed at most once, whatever replicas die, are deposed or believe of the time: the
 *   push, and the note that this occurrence is settled, are one transaction of ZooKeeper. An occurrence is pushed no
 *   earlier than its time on the ensemble's clock, and none is passed over in silence: each that is not pushed is
 *   counted as missed.
 * Not guaranteed: that it is pushed in time. While no replica has a quorum, or while the queue refuses the message, it
 *   waits. What waits longer than the grace (a setting) is missed: of the missed ones `skip` pushes none, `once` the
 *   latest. Nor that it is handled once: the consumer of a queue does what the queue promises.
 *
 * Layout:  <root>/schedules/<namespace>/<name>             persistent; the schedule, and how far it is settled
 *          <root>/ns/<namespace>/schedule-turns/<bb>       its version counts the writes and removals of schedules
 *          <root>/scheduler                                the replica that fires (ephemeral, of its control session)
 * Source:  none; a compare-and-set of one node in the transaction of the push.
 *
 * Reading order: this; `cadence.ts`; `decide.ts`; `schedules.ts` (requests); `scheduler.ts`, `agenda.ts`, `firing.ts`
 * (what happens without a request). docs/protocol.md walks through it (C49 to C51).
 */
import { StandingConflictError } from '../../errors.js';
import type { Awaited } from '../../time.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import { expectKnown, type KnownFields } from '../known-record.js';

/** Of one name in one namespace. */
export interface ScheduleRef {
  readonly namespace: string;
  readonly name: string;
  readonly path: string;
}

export type Misfire = 'skip' | 'once';

/** What a caller sets. */
export interface ScheduleConfig {
  readonly cron: string;
  /** IANA name. */
  readonly timeZone: string;
  readonly to: {
    readonly queue: string;
    /** JSON. */
    readonly body: unknown;
    /** Only for a queue whose order is `priority`. */
    readonly priority?: number | undefined;
  };
  readonly misfire: Misfire;
  readonly paused: boolean;
}

/** An occurrence is identified by its time: epoch ms. */
export interface ScheduleRecord extends ScheduleConfig {
  /** Who wrote it last. */
  readonly principal: string;
  /** The first occurrence that is not settled; missing while it is paused, and if there is none. */
  readonly dueAt?: number;
  /** The last one that was pushed, and when on the ensemble's clock. */
  readonly fired?: { readonly occurrence: number; readonly at: number };
  /** How many were missed since the schedule was made, and the last of them. */
  readonly missed?: { readonly count: number; readonly occurrence: number };
  /** Why the occurrence that is due could not be pushed yet; missing where nothing is in its way. */
  readonly refused?: {
    readonly occurrence: number;
    readonly at: number;
    readonly code: string;
    readonly detail: string;
  };
}

export interface ScheduleView {
  /** Undefined: there is no such schedule. */
  readonly record: ScheduleRecord | undefined;
  readonly etag: string;
}

/** A message as the queue takes it. */
export interface DueMessage {
  readonly body: Buffer;
  readonly priority?: number | undefined;
  readonly attributes: Record<string, string>;
  /** What has to be done in the transaction that pushes it. */
  readonly guards: readonly MultiOperation[];
}

/** Where schedules push to: the queues, which are another recipe. */
export interface Queuing {
  /** @throws ZooKeeperError of a refused guard; PosternError where the queue refuses it; NoReplyError */
  push(namespace: string, queue: string, message: DueMessage, awaited: Awaited): Promise<unknown>;
  /** How a queue of that name orders its messages, or would if there was one. */
  orderOf(namespace: string, queue: string, deadline: number): Promise<'fifo' | 'priority' | 'grouped'>;
}

export const ABSENT: ScheduleView = { record: undefined, etag: '"0-0"' };

/** @throws NewerRecordError */
export function viewOf(name: string, node: Pick<NodeData, 'data' | 'stat'> | undefined): ScheduleView {
  const record = node === undefined ? undefined : parseSchedule(name, node.data);
  return node === undefined || record === undefined ? ABSENT : { record, etag: etagOf(node.stat) };
}

export function etagOf({ czxid, version }: Pick<NodeData['stat'], 'czxid' | 'version'>): string {
  return `"${czxid}-${version}"`;
}

export function encodeSchedule(record: ScheduleRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

/** @throws StandingConflictError for what somebody else has put there; NewerRecordError */
export function decodeSchedule(name: string, { data }: Pick<NodeData, 'data'>): ScheduleRecord {
  const record = parseSchedule(name, data);
  if (record !== undefined) return record;
  throw new StandingConflictError(`The znode of the schedule "${name}" holds something else: this is no schedule.`);
}

const KNOWN_SCHEDULE: KnownFields<ScheduleRecord> = {
  cron: true,
  timeZone: true,
  to: true,
  misfire: ['skip', 'once'],
  paused: true,
  principal: true,
  dueAt: true,
  fired: true,
  missed: true,
  refused: true,
};
const KNOWN_TARGET: KnownFields<ScheduleConfig['to']> = { queue: true, body: true, priority: true };

/**
 * @returns undefined for what somebody else has put there
 * @throws NewerRecordError
 */
export function parseSchedule(name: string, data: Buffer): ScheduleRecord | undefined {
  const record = parse(data);
  if (typeof record?.cron !== 'string' || typeof record.to !== 'object') return undefined;
  expectKnown(`the schedule "${name}"`, record, KNOWN_SCHEDULE);
  expectKnown(`the target of the schedule "${name}"`, record.to, KNOWN_TARGET);
  return record as ScheduleRecord;
}

function parse(data: Buffer): Partial<ScheduleRecord> | null {
  try {
    return JSON.parse(data.toString('utf8')) as Partial<ScheduleRecord> | null;
  } catch {
    return null;
  }
}
