/**
 * Clients write schedules that are due every two seconds, pause them, remove them, and look at them and at what was
 * pushed. Nobody takes anything from the queues, which have the names of their schedules. In the end the schedule has
 * to fire on, is removed, and all that was pushed is looked at.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Reply } from '../../support/http/client.js';
import { unlessDone } from '../client-lease.js';
import { NotApplied, now } from '../history.js';
import { AFTERWARDS } from '../holds.js';
import { peek } from '../peek.js';
import {
  scheduleComplaints,
  type Misfire,
  type Pushed,
  type ScheduleInput,
  type ScheduleOutput,
  type Shown,
} from '../schedules.js';
import { ask, expected, settleAt, type Recorder, type Scene, type Workload } from '../workload.js';

const EVERY_MS = 2_000;
const GRACE_MS = 5_000;
const CRON = `*/${EVERY_MS / 1_000} * * * * *`;
/** Of replicas on which this is done. */
export const SCHEDULE_SETTINGS = { POSTERN_SCHEDULE_SECONDS: 'true', POSTERN_SCHEDULE_GRACE_MS: String(GRACE_MS) };
/** Another replica takes over when the session of the one that died has ended. */
const SETTLE_MS = 60_000;
const RETRY_MS = 200;

interface Answer {
  dueAt?: string;
  fired?: { occurrence: string };
  missed?: { count: number; occurrence: string };
}

class Planner {
  #puts = 0;

  constructor(
    readonly history: Recorder<ScheduleInput, ScheduleOutput>,
    readonly scene: Scene,
    readonly client: string,
  ) {}

  async act(): Promise<void> {
    const object = this.scene.object();
    const choice = this.scene.random();
    if (choice < 0.35) await this.#put(object, false);
    else if (choice < 0.38) await this.#put(object, true);
    else if (choice < 0.41) await this.#remove(object);
    else if (choice < 0.8) await this.#show(object);
    else await this.#look(object);
  }

  /** With everybody else gone: it is fired. @throws NotApplied when it is not in time, or cannot be told */
  async settle(object: string): Promise<void> {
    const values: string[] = [];
    const isFired = async (): Promise<boolean> => {
      if (values.length === 0) {
        const value = await this.#put(object, false);
        if (value === undefined) return false;
        values.push(value);
      }
      return (await this.#look(object))?.some(({ value }) => values.includes(value)) ?? false;
    };
    for (const startedAt = now(); now() - startedAt < SETTLE_MS; await pause(RETRY_MS))
      if ((await isFired().catch(unlessDone)) === true) break;
    const told = [await this.#show(object), await this.#remove(object), await this.#look(object)];
    if (told.includes(undefined)) throw new NotApplied();
  }

  /** @returns what is pushed from now on; undefined when nobody knows */
  async #put(object: string, paused: boolean): Promise<string | undefined> {
    const value = `${this.client}-${process.pid}-${(this.#puts += 1)}`;
    const to = { queue: object, body: value };
    const misfire = misfireOf(object);
    const body = { cron: CRON, misfire, paused, to };
    const output = await this.history.record(object, this.client, { do: 'put', value, paused, misfire }, async () =>
      shown(await ask(this.scene.replica(), 'PUT', `/v1/schedules/${object}`, { body })),
    );
    return output && value;
  }

  #remove(object: string): Promise<ScheduleOutput | undefined> {
    return this.history.record(object, this.client, { do: 'remove' }, async () => {
      const reply = await ask(this.scene.replica(), 'DELETE', `/v1/schedules/${object}`);
      if (reply?.status === 409) throw new NotApplied();
      return reply && expected(reply, [204]) && { wall: Date.now(), removed: true };
    });
  }

  #show(object: string): Promise<ScheduleOutput | undefined> {
    return this.history.record(object, this.client, { do: 'show' }, async () =>
      shown(await ask(this.scene.replica(), 'GET', `/v1/schedules/${object}`)),
    );
  }

  async #look(object: string): Promise<readonly Pushed[] | undefined> {
    const output = await this.history.record(object, this.client, { do: 'look' }, async () => {
      const messages = await peek(this.scene.replica(), object);
      if (messages === undefined) return undefined;
      const pushed = messages.map(({ body, enqueuedAt, attributes }) => ({
        occurrence: Date.parse(attributes?.['occurrence'] ?? ''),
        at: Date.parse(enqueuedAt),
        value: String(body),
      }));
      return { wall: Date.now(), pushed };
    });
    return output !== undefined && 'pushed' in output ? output.pushed : undefined;
  }
}

function shown(reply: Reply | undefined): ScheduleOutput | undefined {
  if (reply === undefined) return undefined;
  const wall = Date.now();
  // Others wrote all the time: nothing was done.
  if (reply.status === 409) throw new NotApplied();
  if (expected(reply, [200, 201, 404]).status === 404) return { wall, schedule: null };
  const { dueAt, fired, missed } = reply.body as Answer;
  const schedule: Shown = {
    ...(dueAt !== undefined && { dueAt: Date.parse(dueAt) }),
    ...(fired !== undefined && { fired: Date.parse(fired.occurrence) }),
    ...(missed !== undefined && { missed: { count: missed.count, occurrence: Date.parse(missed.occurrence) } }),
  };
  return { wall, schedule };
}

/** Half of them go on with the latest that was missed; all clients agree on which. */
function misfireOf(object: string): Misfire {
  const sum = [...object].reduce((all, letter) => all + letter.charCodeAt(0), 0);
  return sum % 2 === 0 ? 'skip' : 'once';
}

export const schedule: Workload<ScheduleInput, ScheduleOutput> = {
  kind: 'schedule',

  async start(history, scene, client) {
    const planner = new Planner(history, scene, client);
    return () => planner.act();
  },

  settle: (history, replica, object) =>
    settleAt(replica, object, (scene) => new Planner(history, scene, AFTERWARDS).settle(object)),

  check: (operations) => scheduleComplaints(operations, { everyMs: EVERY_MS, graceMs: GRACE_MS }),
};
