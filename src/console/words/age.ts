/** Durations, as people read them at a glance: the two largest units. */
const UNITS: readonly (readonly [name: string, ms: number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
];

/** @param ms negative, as by clocks that disagree, counts as 0 */
export function duration(ms: number): string {
  if (ms > 0 && ms < 1_000) return `${Math.round(ms)} ms`;
  let rest = Math.max(0, Math.floor(ms / 1_000)) * 1_000;
  const at = UNITS.findIndex(([, size]) => rest >= size);
  if (at === -1) return '0 s';
  return UNITS.slice(at, at + 2)
    .map(([name, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count === 0 ? '' : `${count} ${name}`;
    })
    .filter((text) => text !== '')
    .join(' ');
}

/** How long ago something was. @param instant undefined or null: never */
export function age(instant: string | null | undefined, now: number): string {
  return instant == null ? '–' : duration(Math.max(0, Math.floor((now - Date.parse(instant)) / 1_000) * 1_000));
}

/** How soon something is. @param now epoch milliseconds */
export function until(instant: string, now: number): string {
  const ms = Math.ceil((Date.parse(instant) - now) / 1_000) * 1_000;
  return ms > 0 ? `in ${duration(ms)}` : 'now';
}
