/** Whose console this is: the key of this tab. It is kept in the tab's own storage at most, and ends with the tab. */
import { batch, signal } from '@preact/signals';
import { namespace } from './route.js';
import type { Caller } from '../api/request.js';
import type { Refused } from '../api/refusal.js';

const STORED_AS = 'postern-key';

export const key = signal(stored());

/** Why the gateway wants another key; undefined as long as it is content. */
export const refusedKey = signal<Refused | undefined>(undefined);

/** The key that the gateway accepted last: refused after that, it has expired or was removed. */
let accepted: string | undefined;

/** Of the key that is refused now: whether it has worked before. */
export function wasAccepted(): boolean {
  return key.value !== '' && key.value === accepted;
}

export function useKey(text: string): void {
  try {
    if (text === '') sessionStorage.removeItem(STORED_AS);
    else sessionStorage.setItem(STORED_AS, text);
  } catch {
    // No storage: then it lasts until the page is loaded again.
  }
  batch(() => {
    refusedKey.value = undefined;
    key.value = text;
  });
}

export function caller(): Caller {
  const own = key.value;
  return { key: own, namespace: namespace.value, onAccepted: () => (accepted = own) };
}

function stored(): string {
  try {
    return sessionStorage.getItem(STORED_AS) ?? '';
  } catch {
    return '';
  }
}
