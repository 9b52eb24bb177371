/** Numbers with their nouns. */
const NUMBERS = new Intl.NumberFormat('en');

export function quantity(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function number(count: number): string {
  return NUMBERS.format(count);
}

export function bytes(count: number): string {
  if (count < 1_024) return `${count} B`;
  return count < 1_048_576 ? `${(count / 1_024).toFixed(1)} KiB` : `${(count / 1_048_576).toFixed(1)} MiB`;
}
