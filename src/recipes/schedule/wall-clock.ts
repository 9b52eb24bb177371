/**
 * What the clocks on the wall show in a time zone, and when. A time on the wall is written as the epoch ms at which
 * clocks in UTC show it.
 */
import { DAY, SECOND } from '../../time.js';

export class WallClock {
  readonly #format: Intl.DateTimeFormat;

  /** @param timeZone IANA name */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  /** What they show at an instant, epoch ms. */
  shownAt(instant: number): number {
    const parts = this.#format.formatToParts(instant);
    const part = (type: Intl.DateTimeFormatPartTypes): number => Number(parts.find((one) => one.type === type)?.value);
    const second = Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'), part('second'));
    return second + (instant % SECOND);
  }

  /** The instant at which they show a time: the first one, if there are two; if none, when the clocks change. */
  whenShown(wall: number): number {
    // The clocks do not change twice within days.
    const [old, current] = [this.#aheadAt(wall - DAY), this.#aheadAt(wall + DAY)];
    for (const ahead of [old, current]) if (this.shownAt(wall - ahead) === wall) return wall - ahead;
    let [before, changed] = [wall - current, wall - old];
    while (changed - before > 1) {
      const middle = Math.floor((before + changed) / 2);
      if (this.#aheadAt(middle) === old) before = middle;
      else changed = middle;
    }
    return changed;
  }

  /** By how much they are ahead of UTC, ms. */
  #aheadAt(instant: number): number {
    return this.shownAt(instant) - instant;
  }
}
