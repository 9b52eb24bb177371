/** Paths and sequence numbers. */
import type { Stat } from './operations.js';

export function join(...parts: readonly string[]): string {
  return parts.join('/');
}

export function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash <= 0 ? '/' : path.slice(0, slash);
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

const DIGITS = 10;

/**
 * The last sequence number that a directory assigns. It does not wrap: all later nodes get the same one, and nothing
 * tells which of them came first. A directory counts all children ever created in it, and starts at 0 only when it is
 * deleted and created again.
 */
export const LAST_SEQUENCE = 2 ** 31 - 1;

/**
 * The sequence number at the end of a sequential node's name: ten digits. Undefined if there is none, or one with a
 * sign, as nodes get that are created past the last number while others are in flight. Parsed by hand because lines are
 * long.
 */
export function parseSequence(name: string): number | undefined {
  const start = name.length - DIGITS;
  let value = 0;
  for (let at = start; at < name.length; at += 1) {
    const digit = name.charCodeAt(at) - 48;
    if (!(digit >= 0 && digit <= 9)) return undefined;
    value = value * 10 + digit;
  }
  return value <= LAST_SEQUENCE ? value : undefined;
}

/** As ZooKeeper writes it: ten digits, zero-padded. */
export function formatSequence(sequence: number): string {
  return String(sequence).padStart(DIGITS, '0');
}

/**
 * The number of the next sequential node in a directory with this Stat. Servers report `cversion` as twice the children
 * ever created, less those there are.
 */
export function nextSequence({ cversion, numChildren }: Pick<Stat, 'cversion' | 'numChildren'>): number {
  return ((cversion + numChildren) >>> 0) / 2; // 32 bits are enough for twice the last number, but not with a sign
}
