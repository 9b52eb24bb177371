/** Which interventions this key was refused, and why: their buttons stay disabled until there is another key. */
import { effect, signal } from '@preact/signals';
import { key } from './session.js';

const refused = signal<ReadonlyMap<string, string>>(new Map());

effect(() => {
  void key.value;
  refused.value = new Map();
});

/** @param action what is done to what, such as `revoke lock a` */
export function whyRefused(action: string): string | undefined {
  return refused.value.get(action);
}

export function noteRefused(action: string, why: string): void {
  refused.value = new Map(refused.peek()).set(action, why);
}
