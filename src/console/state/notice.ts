/** The last thing that was done here, in a sentence, for as long as it is news. */
import { signal } from '@preact/signals';

const NEWS_MS = 12_000;

export const notice = signal('');
let timer: ReturnType<typeof setTimeout> | undefined;

export function say(sentence: string): void {
  clearTimeout(timer);
  notice.value = sentence;
  timer = setTimeout(() => (notice.value = ''), NEWS_MS);
}
