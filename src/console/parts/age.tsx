/** How long ago something was, growing while it is looked at; the instant itself is told on hovering. */
import type { JSX } from 'preact';
import { now } from '../state/clock.js';
import { age, until } from '../words/age.js';

export function Age({ since }: { since: string | null | undefined }): JSX.Element {
  if (since == null) return <span class="soft">–</span>;
  return (
    <time dateTime={since} title={since}>
      {age(since, now.value)}
    </time>
  );
}

/** How soon something is, nearing while it is looked at. */
export function Until({ at }: { at: string | null | undefined }): JSX.Element {
  if (at == null) return <span class="soft">–</span>;
  return (
    <time dateTime={at} title={at}>
      {until(at, now.value)}
    </time>
  );
}
