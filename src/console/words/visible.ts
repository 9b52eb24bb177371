/**
 * Other people's text in a line of ours: what would turn it around (a right-to-left override turns all that follows,
 * also what the page says) and control characters are written out.
 */
const UNSEEN = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

export function visible(text: string): string {
  return text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
