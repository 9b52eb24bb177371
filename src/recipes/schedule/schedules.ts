/**
 * Writes and removes schedules for requests. Each does so in the turn of its name (`name-turn.ts`, C35): what was
 * decided for a schedule that was removed since changes nothing of the one that was made in its place.
 */
import { InvalidError } from '../../errors.js';
import type { Page } from '../../page.js';
import type { Awaited } from '../../time.js';
import { preciseClock } from '../../zookeeper/ensemble-time.js';
import { isReason } from '../../zookeeper/errors.js';
import { parentOf } from '../../zookeeper/paths.js';
import { readOfMany } from '../../zookeeper/read-nodes.js';
import { AGAIN } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { NameBounds } from '../name-bounds.js';
import { inTurn, type NameTurn } from '../name-turn.js';
import { lookAtNode } from '../observing/looks.js';
import { Observers } from '../observing/observers.js';
import { Cadence, checkCadence } from './cadence.js';
import { configured } from './decide.js';
import {
  decodeSchedule,
  encodeSchedule,
  etagOf,
  parseSchedule,
  viewOf,
  type Queuing,
  type ScheduleConfig,
  type ScheduleRecord,
  type ScheduleRef,
  type ScheduleView,
} from './schedule.js';

export type ScheduleObservers = Observers<ScheduleRef, ScheduleView>;

/** What may be asked of a schedule, from the settings. */
export interface ScheduleLimits {
  /** Whether a cron expression may have a field for seconds. */
  readonly seconds: boolean;
  /** In one namespace; 0: any number. */
  readonly maxSchedules: number;
}

export interface Put {
  readonly made: boolean;
  readonly record: ScheduleRecord;
  readonly etag: string;
}

export interface ListedSchedules {
  readonly items: readonly { readonly name: string; readonly record: ScheduleRecord }[];
  readonly next: string | undefined;
}

/** Of one replica. */
export class Schedules {
  readonly observers: ScheduleObservers;
  readonly #context: Coordination;
  readonly #queuing: Queuing;
  readonly #seconds: boolean;
  readonly #bound: NameBounds;

  constructor(context: Coordination, queuing: Queuing, { seconds, maxSchedules }: ScheduleLimits) {
    this.#context = context;
    this.#queuing = queuing;
    this.#seconds = seconds;
    this.#bound = new NameBounds(context.control, maxSchedules, 'maxSchedules');
    this.observers = new Observers(
      context.control,
      lookAtNode(context.control, ({ name }: ScheduleRef, { value }) => viewOf(name, value)),
    );
  }

  ref(namespace: string, name: string): ScheduleRef {
    return { namespace, name, path: this.#context.layout.schedule(namespace, name) };
  }

  /**
   * Makes a schedule, or replaces what it was set to.
   * @throws InvalidError; PosternError `too-many-names`, `conflict`; ClientGoneError, NoReplyError
   */
  async put(ref: ScheduleRef, config: ScheduleConfig, principal: string, awaited: Awaited): Promise<Put> {
    const { deadline } = awaited;
    const clock = await preciseClock(this.#context, deadline);
    checkCadence(config, this.#seconds, clock.latest());
    await this.#checkTarget(ref, config, deadline);
    const cadence = new Cadence(config, { seconds: this.#seconds });
    const zk = this.#writing(awaited);
    return inTurn(this.#turnOf(ref, awaited), async (turn) => {
      const found = await zk.fresh(() => zk.find(ref.path));
      const before = found === undefined ? undefined : decodeSchedule(ref.name, found);
      // As late as what was read: what an earlier schedule of that name has pushed is not due again.
      const record = configured(before, { ...config, principal }, cadence, clock.latest());
      const data = encodeSchedule(record);
      if (found === undefined) await this.#bound.admit(parentOf(ref.path), deadline);
      try {
        const [, written] = await zk.multi([
          turn,
          found === undefined
            ? { type: 'create', path: ref.path, data }
            : { type: 'setData', path: ref.path, data, version: found.stat.version },
        ]);
        const stat = written !== undefined && 'stat' in written ? written.stat : { czxid: 0, version: 0 };
        return { made: found === undefined, record, etag: etagOf(stat) };
      } catch (error) {
        if (isReason(error, 'NO_NODE')) await zk.ensure(parentOf(ref.path));
        else if (!isReason(error, 'NODE_EXISTS')) throw error;
        return AGAIN;
      }
    });
  }

  /**
   * Those of a page, in order of name.
   * @returns `next`: the last name, if there are more
   */
  async list(namespace: string, page: Page, isStale: boolean, deadline: number): Promise<ListedSchedules> {
    const { control, layout } = this.#context;
    const zk = control.until(deadline);
    const directory = layout.schedulesOf(namespace);
    if (!isStale) await zk.sync(directory);
    const names = (await zk.names(directory)).page(page);
    const shown = names.slice(0, page.limit);
    const paths = shown.map((name) => layout.schedule(namespace, name));
    const records = await readOfMany(zk, control.largeReads, paths, ({ data }, i) =>
      parseSchedule(shown[i] as string, data),
    );
    const items = shown.flatMap((name, i) => {
      const record = records[i];
      return record === undefined ? [] : [{ name, record }];
    });
    return { items, next: names.length > page.limit ? shown.at(-1) : undefined };
  }

  /** Removes a schedule, if there is one. @throws PosternError `conflict`; ClientGoneError, NoReplyError */
  async remove(ref: ScheduleRef, awaited: Awaited): Promise<void> {
    const zk = this.#writing(awaited);
    await inTurn(this.#turnOf(ref, awaited), async (turn) => {
      const found = await zk.fresh(() => zk.exists(ref.path));
      try {
        await zk.multi(found === undefined ? [turn] : [turn, { type: 'delete', path: ref.path }]);
        return undefined;
      } catch (error) {
        if (!isReason(error, 'NO_NODE')) throw error;
        return AGAIN;
      }
    });
  }

  /** What no push could satisfy is refused now, not at night. */
  async #checkTarget({ namespace }: ScheduleRef, { to }: ScheduleConfig, deadline: number): Promise<void> {
    const order = await this.#queuing.orderOf(namespace, to.queue, deadline);
    if (order === 'grouped')
      throw new InvalidError('to.queue', to.queue, 'one without groups: what a schedule pushes belongs to none');
    if (to.priority === undefined || order === 'priority') return;
    const rule = `absent: queue "${to.queue}" has order "fifo", as one has that nobody configured; for priorities PUT it with order "priority" first`;
    throw new InvalidError('to.priority', to.priority, rule);
  }

  #writing({ deadline, requester }: Awaited) {
    return this.#context.control.writingFor(requester).until(deadline);
  }

  #turnOf({ namespace, name }: ScheduleRef, awaited: Awaited): NameTurn {
    const path = this.#context.layout.scheduleTurn(namespace, name);
    return { zk: this.#writing(awaited), path, busy: `Others wrote and removed the schedule "${name}"` };
  }
}
