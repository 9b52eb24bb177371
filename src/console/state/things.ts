/** What the stream has told: the present state of each thing, by kind and name. Bounded as the stream is. */
import { isKind, KINDS, type Kind, type States } from '../api/contract.js';
import type { StreamedEvent } from '../api/event-lines.js';

export type ThingsOf<K extends Kind> = ReadonlyMap<string, States[K]>;

interface Told {
  readonly kind: string;
  readonly name: string;
  readonly state: unknown;
}

export class Things {
  readonly #kinds = new Map<Kind, Map<string, unknown>>(KINDS.map((kind) => [kind, new Map()]));

  of<K extends Kind>(kind: K): ThingsOf<K> {
    return this.#kinds.get(kind) as unknown as ThingsOf<K>;
  }

  /**
   * `state` replaces everything, `changed` and `gone` one thing.
   * @returns the kinds of which something is different now
   */
  apply({ event, data }: Pick<StreamedEvent, 'event' | 'data'>): readonly Kind[] {
    if (event === 'state') return this.#replace((data as { items: readonly Told[] }).items);
    const { kind, name, state } = data as Told;
    if (!isKind(kind)) return [];
    const things = this.#kinds.get(kind) as Map<string, unknown>;
    if (event === 'changed') things.set(name, state);
    else if (event !== 'gone' || !things.delete(name)) return [];
    return [kind];
  }

  /** Nothing of this kind may be read any more. */
  forget(kind: Kind): void {
    this.#kinds.get(kind)?.clear();
  }

  clear(): void {
    for (const things of this.#kinds.values()) things.clear();
  }

  #replace(items: readonly Told[]): readonly Kind[] {
    this.clear();
    for (const { kind, name, state } of items) if (isKind(kind)) this.#kinds.get(kind)?.set(name, state);
    return KINDS;
  }
}
