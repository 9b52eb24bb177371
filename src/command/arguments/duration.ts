/** Durations as people write them: `250ms`, `15s`, `5m`, `1h30m`. */
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;

/** Node runs a timer at once that is set for longer than 2³¹ - 1 ms, which is 24.8 days. */
export const DURATION_MAX = '24d';
const MAX_MS = 24 * 86_400_000;

/**
 * @returns milliseconds, or undefined if it is none, or longer than `DURATION_MAX`. A number needs its unit:
 *   other tools read a bare one as seconds, the gateway as milliseconds. `0` needs none.
 */
export function readDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (!WHOLE.test(text)) return undefined;
  const ms = [...text.matchAll(PART)].reduce(
    (sum, [, number, unit]) => sum + Number(number) * (UNITS[unit ?? ''] ?? NaN),
    0,
  );
  return ms <= MAX_MS ? Math.round(ms) : undefined;
}

/** The shortest way to write it, in one unit and at most one decimal. */
export function showDuration(ms: number): string {
  const [unit, size] = Object.entries(UNITS).findLast(([, factor]) => ms >= factor) ?? ['ms', 1];
  return `${Math.round((ms / size) * 10) / 10}${unit}`;
}
