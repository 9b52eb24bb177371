/** Values of any kind as text. They are other people's: shown as characters, never as markup. */
import { visible } from './visible.js';

/** More of one value is not shown. */
export const SHOWN_MAX = 65_536;

export function textOf(value: unknown): string {
  return bounded(typeof value === 'string' ? value : (JSON.stringify(value, undefined, 2) ?? ''));
}

export function bounded(text: string, max = SHOWN_MAX): string {
  return text.length <= max ? visible(text) : `${visible(text.slice(0, max))}… (${text.length - max} more characters)`;
}

/** Bytes as text if they are UTF-8, else in base 16. */
export function textOfBytes(bytes: Uint8Array): string {
  try {
    return bounded(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return bounded(Array.from(bytes.subarray(0, SHOWN_MAX), (byte) => byte.toString(16).padStart(2, '0')).join(' '));
  }
}
