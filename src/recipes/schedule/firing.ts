/**
 * Fires one schedule: pushes the occurrence that is due, or passes over those that were missed (protocol C49).
 *
 *   read turn and schedule ─▶ decide ──nothing is due──▶ told
 *        ▲                      └─▶ one transaction: check(turn), setData(schedule, settled, version), create(message)
 *        │                             ├──▶ told
 *        ├── BAD_VERSION, NO_NODE ◀────┤   somebody else fired it, wrote it or removed it
 *        │                             ├── no answer: thrown; what is read the next time shows whether it was done
 *        └── tried again later ◀───────┘── the queue refuses: noted in the schedule, once per occurrence and reason
 *
 * Two replicas that fire the same occurrence write the same version, and one of them is refused; so is what a replica
 * sent before it stood still, or before the schedule was removed and made again.
 */
import { PosternError } from '../../errors.js';
import { instant, SECOND, type Requester } from '../../time.js';
import { preciseClock } from '../../zookeeper/ensemble-time.js';
import { isReason, isTransient, ZooKeeperError } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { ifKnown } from '../known-record.js';
import type { Planned } from './agenda.js';
import { Cadence } from './cadence.js';
import { nextStep, refusedAt, type Step } from './decide.js';
import { encodeSchedule, parseSchedule, type Queuing, type ScheduleRecord, type ScheduleRef } from './schedule.js';

const FIRE_MS = 10 * SECOND;
/** Of what the queue says; longer than any of its sentences with the longest names. */
const DETAIL_LENGTH_MAX = 500;
/** Names of attributes of a message that a schedule pushes. */
const SCHEDULE_ATTRIBUTE = 'schedule';
const OCCURRENCE_ATTRIBUTE = 'occurrence';
/** Nobody waits for it, and so nobody leaves. */
const NOBODY: Requester = { gone: false };

/** What was read of a schedule, or written. */
interface Known extends Planned {
  readonly record: ScheduleRecord;
}

interface Found extends Known {
  /** Changes with every write and removal by a request. */
  readonly turn: MultiOperation;
}

/** Of one replica. */
export class Firing {
  readonly #context: Coordination;
  readonly #queuing: Queuing;
  readonly #graceMs: number;

  /** @param graceMs how late an occurrence may be pushed */
  constructor(context: Coordination, queuing: Queuing, graceMs: number) {
    this.#context = context;
    this.#queuing = queuing;
    this.#graceMs = graceMs;
  }

  /**
   * Does the next step of a schedule, if one is due on the ensemble's clock.
   * @returns what is known of it then; undefined: it is gone
   * @throws NoReplyError
   */
  async fire(ref: ScheduleRef): Promise<Planned | undefined> {
    const deadline = performance.now() + FIRE_MS;
    for (;;) {
      try {
        return await this.#fireOnce(ref, deadline);
      } catch (error) {
        if (!isReason(error, 'BAD_VERSION', 'NO_NODE') || performance.now() >= deadline) throw error;
        await this.#context.control.sync(ref.path, deadline);
      }
    }
  }

  async #fireOnce(ref: ScheduleRef, deadline: number): Promise<Known | undefined> {
    const found = await this.#read(ref, deadline);
    if (found === undefined) return undefined;
    const { record } = found;
    const now = (await preciseClock(this.#context, deadline)).earliest();
    const step = nextStep(record, new Cadence(record, { seconds: true }), now, this.#graceMs);
    if (step === undefined) return found;
    try {
      if (step.occurrence === undefined) return await this.#write(ref, found, step.next, step, deadline);
      await this.#push(ref, found, { ...step, occurrence: step.occurrence }, deadline);
    } catch (error) {
      if (step.occurrence === undefined || !isRefusal(error)) throw error;
      return this.#refused(ref, found, step, error, deadline);
    }
    const { metrics } = this.#context;
    metrics.scheduleOccurrencesTotal.inc({ outcome: 'pushed' });
    metrics.scheduleLatenessSeconds.observe(Math.max(0, now - step.occurrence) / SECOND);
    this.#countMissed(step);
    return { record: step.next, stat: afterWrite(found.stat) };
  }

  /** The turn first: what is read of the schedule is not older. */
  async #read({ namespace, name, path }: ScheduleRef, deadline: number): Promise<Found | undefined> {
    const { control, layout } = this.#context;
    const zk = control.until(deadline);
    const turn = layout.scheduleTurn(namespace, name);
    for (;;) {
      const { results } = await zk.multiRead([
        { type: 'getData', path: turn },
        { type: 'getData', path },
      ]);
      const [turnNode, node] = results;
      if (node === undefined || !('data' in node)) return undefined;
      const record = ifKnown(() => parseSchedule(name, node.data));
      if (record === undefined) return undefined;
      if (turnNode !== undefined && 'data' in turnNode) {
        const isSame: MultiOperation = { type: 'check', path: turn, version: turnNode.stat.version };
        return { record, stat: node.stat, turn: isSame };
      }
      await zk.ensure(turn);
    }
  }

  #push(
    { namespace, name, path }: ScheduleRef,
    { record: { to }, stat, turn }: Found,
    { occurrence, next }: Step & { occurrence: number },
    deadline: number,
  ): Promise<unknown> {
    const message = {
      body: Buffer.from(JSON.stringify(to.body)),
      priority: to.priority,
      attributes: { [SCHEDULE_ATTRIBUTE]: name, [OCCURRENCE_ATTRIBUTE]: instant(occurrence) },
      guards: [turn, settle(path, next, stat)],
    };
    return this.#queuing.push(namespace, to.queue, message, { deadline, requester: NOBODY });
  }

  async #refused(ref: ScheduleRef, found: Found, step: Step, error: PosternError, deadline: number): Promise<Known> {
    const { record } = found;
    this.#context.metrics.scheduleRefusalsTotal.inc();
    const { code, message } = error;
    if (record.refused?.occurrence === step.occurrence && record.refused?.code === code)
      return { ...found, isRefused: true };
    const refusal = { at: this.#context.zooKeeperClock.now(), code, detail: message.slice(0, DETAIL_LENGTH_MAX) };
    const written = await this.#write(ref, found, refusedAt(record, step, refusal), step, deadline);
    return { ...written, isRefused: true };
  }

  async #write(
    { path }: ScheduleRef,
    { stat, turn }: Found,
    record: ScheduleRecord,
    step: Step,
    deadline: number,
  ): Promise<Known> {
    await this.#context.control.until(deadline).multi([turn, settle(path, record, stat)]);
    this.#countMissed(step);
    return { record, stat: afterWrite(stat) };
  }

  #countMissed({ missed }: Step): void {
    if (missed !== undefined) this.#context.metrics.scheduleOccurrencesTotal.inc({ outcome: 'missed' }, missed.count);
  }
}

function settle(path: string, record: ScheduleRecord, { version }: Planned['stat']): MultiOperation {
  return { type: 'setData', path, data: encodeSchedule(record), version };
}

function afterWrite({ czxid, version }: Planned['stat']): Planned['stat'] {
  return { czxid, version: version + 1 };
}

/** Whether the queue does not take the message, as opposed to ZooKeeper not answering. */
function isRefusal(error: unknown): error is PosternError {
  return error instanceof PosternError && !(error instanceof ZooKeeperError) && !isTransient(error);
}
