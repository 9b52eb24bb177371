/** Random numbers that a seed repeats. */

/** @returns numbers in [0, 1) (mulberry32) */
export function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * A seed that follows from another one and a name: what is drawn for one thing does not change what is drawn for the
 * next.
 */
export function seedOf(seed: number, name: string): number {
  let mixed = seed | 0;
  for (const character of name) mixed = Math.imul(mixed ^ character.charCodeAt(0), 0x01000193);
  return mixed;
}

/** An integer from 0 to below `count`. */
export function below(count: number, random: () => number): number {
  return Math.floor(random() * count);
}

/** The same items in another order. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const order = [...items];
  for (let i = order.length - 1; i > 0; i -= 1) {
    const j = below(i + 1, random);
    [order[i], order[j]] = [order[j] as T, order[i] as T];
  }
  return order;
}
