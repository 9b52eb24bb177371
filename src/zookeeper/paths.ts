/**
 * Paths and sequence numbers.
 *
 * A sequence number is a signed 32-bit counter of the parent, written `%010d`: it wraps to negative
 * numbers, and `-2147483648` follows `2147483647` in line. It is compared modulo 2^32, never as text.
 */

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
/** With a sign there may be nine. */
const SHORT_NEGATIVE = /(?<=[-_])-\d{9}$/;

/**
 * The sequence number at the end of a sequential node's name, or undefined when it has none: ten digits; or a sign with nine or ten, where the '-'
 * cannot be the separator of a prefix such as `lock-`. Lines are long, so what nearly all names have is read by hand.
 */
export function parseSequence(name: string): number | undefined {
  const start = name.length - DIGITS;
  let value = 0;
  for (let at = start; at < name.length; at += 1) {
    const digit = name.charCodeAt(at) - 48;
    if (!(digit >= 0 && digit <= 9)) {
      const short = SHORT_NEGATIVE.exec(name);
      return short === null ? undefined : Number(short[0]) | 0;
    }
    value = value * 10 + digit;
  }
  const before = name.charAt(start - 2);
  const signed = name.charAt(start - 1) === '-' && (before === '-' || before === '_');
  return (signed ? -value : value) | 0;
}

/** As ZooKeeper writes it: at least ten characters, padded with zeros after the sign. */
export function formatSequence(sequence: number): string {
  return sequence < 0 ? `-${String(-sequence).padStart(9, '0')}` : String(sequence).padStart(10, '0');
}

/** Negative when `a` came first. Right as long as the two are less than 2^31 apart. */
export function compareSequences(a: number, b: number): number {
  return (a - b) | 0;
}
