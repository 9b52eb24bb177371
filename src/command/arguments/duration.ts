/** Durations as people write them: `250ms`, `15s`, `5m`, `1h30m`. */
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;

/**
 * @returns milliseconds, or undefined if it is none. A number needs its unit: other tools read a bare one as seconds,
 *   the gateway as milliseconds. `0` needs none.
 */
export function readDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (!WHOLE.test(text)) return undefined;
  const ms = [...text.matchAll(PART)].reduce(
    (sum, [, number, unit]) => sum + Number(number) * (UNITS[unit ?? ''] ?? NaN),
    0,
  );
  return Number.isSafeInteger(Math.round(ms)) ? Math.round(ms) : undefined;
}

/** The shortest way to write it, in one unit and at most one decimal. */
export function showDuration(ms: number): string {
  const [unit, size] = Object.entries(UNITS).findLast(([, factor]) => ms >= factor) ?? ['ms', 1];
  return `${Math.round((ms / size) * 10) / 10}${unit}`;
}
