/** The herd factor: how many requests are woken for each hand-over, from the metrics of a replica. */
const COUNTED = /^postern_(wakeups|handoffs)_total(?:\{[^}]*\})? (\S+)/gm;

export interface Counts {
  readonly wakeups: number;
  readonly handoffs: number;
}

export function countsIn(exposition: string): Counts {
  const counts = { wakeups: 0, handoffs: 0 };
  for (const [, which, value] of exposition.matchAll(COUNTED)) counts[which as keyof Counts] += Number(value);
  return counts;
}

/** @returns undefined if nothing was handed over */
export function factorOf({ wakeups, handoffs }: Counts): number | undefined {
  return handoffs > 0 ? wakeups / handoffs : undefined;
}
