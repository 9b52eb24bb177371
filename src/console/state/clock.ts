/** The time at the gateway: ages are told by its clock, not by that of the reader's machine. */
import { signal } from '@preact/signals';

const TICK_MS = 1_000;
let offsetMs = 0;

/** Epoch milliseconds at the gateway; changes once a second while the page is seen. */
export const now = signal(Date.now());

/** @param instant when the gateway sent what has just arrived */
export function noteInstant(instant: string): void {
  const at = Date.parse(instant);
  if (Number.isNaN(at)) return;
  offsetMs = at - Date.now();
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + offsetMs;
}, TICK_MS);
