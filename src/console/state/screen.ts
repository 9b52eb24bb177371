/** What the views must know of the screen. */
import { signal } from '@preact/signals';

/** As in the style sheets. */
const narrow = matchMedia('(max-width: 47.9rem)');

/** Whether a list and what is chosen in it find no room beside each other. */
export const isNarrow = signal(narrow.matches);

narrow.addEventListener('change', ({ matches }) => (isNarrow.value = matches));
