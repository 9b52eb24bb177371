/** Somebody's value: characters in a box that scrolls. */
import type { JSX } from 'preact';
import { textOf } from '../words/value.js';

export function Value({ value, label }: { value: unknown; label: string }): JSX.Element {
  return (
    <pre class="value" tabIndex={0} role="region" aria-label={label}>
      {textOf(value)}
    </pre>
  );
}
