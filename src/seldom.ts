/**
 * Keeps repeated messages from filling the log: tells whether a text was last logged long enough ago. Remembers up to a
 * hundred texts.
 */
const REMEMBERED_MAX = 100;

/**
 * @param everyMs how often the same text may be logged
 * @returns whether to log it now
 */
export function createSeldom(everyMs: number): (text: string, now?: number) => boolean {
  const saidAt = new Map<string, number>();
  return (text, now = performance.now()) => {
    const before = saidAt.get(text);
    if (before !== undefined && now - before < everyMs) return false;
    if (saidAt.size >= REMEMBERED_MAX) saidAt.clear();
    saidAt.set(text, now);
    return true;
  };
}
