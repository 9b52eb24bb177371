/** What stands where there is nothing to show: nothing there, not there yet, refused, failed. */
import type { ComponentChildren, JSX } from 'preact';
import { isForbidden, Refusal } from '../api/refusal.js';

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="state">{children}</p>;
}

export function Loading({ what }: { what: string }): JSX.Element {
  return (
    <p class="state" role="status">
      <span class="dots" aria-hidden="true" /> Reading {what}…
    </p>
  );
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'Nobody knows why.';
}

/** Of a request that failed; tried again of itself. That there is no such thing is no failure. */
export function Failed({ error, what }: { error: unknown; what: string }): JSX.Element {
  if (isForbidden(error)) return <Forbidden refusal={error} what={what} />;
  if (error instanceof Refusal && error.problem.code === 'not-found') return <Empty>{error.message}</Empty>;
  return (
    <div class="state state-failed" role="alert">
      <strong>Could not read {what}.</strong>
      <p>{messageOf(error)}</p>
      <p class="soft">It is tried again in a moment.</p>
    </div>
  );
}

export function Forbidden({ refusal, what }: { refusal: Refusal; what: string }): JSX.Element {
  return (
    <div class="state state-forbidden">
      <strong>This key may not read {what}.</strong>
      <p>{refusal.missingScope === undefined ? refusal.message : `It lacks ${refusal.missingScope}.`}</p>
    </div>
  );
}
