/**
 * When a schedule is due: the instants of a cron expression in a time zone, as croner computes them from the zone data
 * of Node.
 *
 * The instants are a set: the next one after an instant does not depend on how one came there. Where the clocks change:
 *
 *   forward   a fixed time that does not exist that day (`30 2 * * *`) is due when the clocks change; of a list or a
 *             step (`*` `/30 2 * * *`) the times that do not exist are left out
 *   back      a fixed time that exists twice is due the first time; lists, steps and `*` are due both times
 *
 * For fixed times croner is only asked for the days (it computes in UTC what the wall shows): where the clocks go
 * forward at midnight, as in Greenland, it would leave out the last hour of the day.
 */
import { Cron } from 'croner';
import { InvalidError } from '../../errors.js';
import { DAY } from '../../time.js';
import type { ScheduleConfig } from './schedule.js';
import { WallClock } from './wall-clock.js';

/** Long enough for every sensible list. */
export const CRON_LENGTH_MAX = 200;
/** One time of the day, of whichever days; with or without seconds. */
const FIXED_TIME = /^(\d+ )?\d+ \d+( [^ ]+){3}$/;

export class Cadence {
  readonly #cron: Cron;
  /** Only for a fixed time: then `#cron` tells what the wall shows. */
  readonly #walls: WallClock | undefined;

  /**
   * @param timing with `seconds`, a sixth field in front is taken for seconds
   * @throws InvalidError for what is no cron expression, no time zone, or never due
   */
  constructor({ cron, timeZone }: Pick<ScheduleConfig, 'cron' | 'timeZone'>, { seconds }: { seconds: boolean }) {
    const isFixed = FIXED_TIME.test(cron);
    const zone = timeZoneOf(timeZone);
    this.#cron = parsed(cron, isFixed ? 'UTC' : zone, seconds);
    this.#walls = isFixed ? new WallClock(zone) : undefined;
  }

  /** @param instant epoch ms @returns epoch ms; undefined: never again */
  nextAfter(instant: number): number | undefined {
    const walls = this.#walls;
    if (walls === undefined) return this.#next(instant);
    for (let wall = this.#next(walls.shownAt(instant) - DAY); wall !== undefined; wall = this.#next(wall)) {
      const due = walls.whenShown(wall);
      if (due > instant) return due;
    }
    return undefined;
  }

  /** The latest one before an instant, epoch ms. */
  lastBefore(instant: number): number | undefined {
    const walls = this.#walls;
    if (walls === undefined) return this.#last(instant);
    for (let wall = this.#last(walls.shownAt(instant) + DAY); wall !== undefined; wall = this.#last(wall)) {
      const due = walls.whenShown(wall);
      if (due < instant) return due;
    }
    return undefined;
  }

  #next(time: number): number | undefined {
    return this.#cron.nextRun(new Date(time))?.getTime();
  }

  #last(time: number): number | undefined {
    return this.#cron.previousRuns(1, new Date(time))[0]?.getTime();
  }
}

/** What has to be so before a schedule is kept. @throws InvalidError */
export function checkCadence(config: Pick<ScheduleConfig, 'cron' | 'timeZone'>, seconds: boolean, now: number): void {
  if (new Cadence(config, { seconds }).nextAfter(now) === undefined)
    throw new InvalidError('cron', config.cron, 'due at some time; this day never comes');
}

/**
 * The one spelling of a time zone: croner keeps something for each that it has ever been given.
 * @param name in whatever case
 * @throws InvalidError
 */
export function timeZoneOf(name: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    throw new InvalidError('timeZone', name, 'a time zone of the IANA database, such as Europe/Berlin or UTC');
  }
}

function parsed(cron: string, timeZone: string, seconds: boolean): Cron {
  try {
    return new Cron(cron, { timezone: timeZone, paused: true, mode: seconds ? '5-or-6-parts' : '5-part' });
  } catch (error) {
    const fields = seconds
      ? 'five fields, or six of which the first are seconds'
      : 'five fields: minute, hour, day of the month, month, day of the week';
    throw new InvalidError('cron', cron, `a cron expression of ${fields} (${reasonOf(error)})`);
  }
}

/** What croner objects to, without the name of its class. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/^CronPattern: /, '').replace(/\.$/, '') : String(error);
}
