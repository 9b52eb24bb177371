/** The live state of this tab: one stream, and what it has told. */
import { batch, effect, signal, type Signal } from '@preact/signals';
import { KINDS, type Kind } from '../api/contract.js';
import { Stream, type Connection } from '../api/stream.js';
import type { Refusal } from '../api/refusal.js';
import { noteInstant } from './clock.js';
import { place } from './place.js';
import { caller, refusedKey } from './session.js';
import { Things, type ThingsOf } from './things.js';

/** Views are drawn anew at most this often, however many events there are. */
const DRAW_EVERY_MS = 200;

export const connection = signal<Connection>({ state: 'connecting', since: Date.now() });

/** Names that begin with this are watched: for namespaces with more things than a stream has. */
export const prefix = signal('');

/** Kinds of which this key may read nothing. */
export const unreadable = signal<ReadonlyMap<Kind, Refusal>>(new Map());

/** To be read while rendering. */
export function mayRead(kind: Kind): boolean {
  return !unreadable.value.has(kind);
}

/** Whether the first state has arrived, in this namespace and with this key. */
export const isTold = signal(false);

const things = new Things();
const revisions = new Map<Kind, Signal<number>>(KINDS.map((kind) => [kind, signal(0)]));
const changed = new Set<Kind>();
let drawing: ReturnType<typeof setTimeout> | undefined;
let stream: Stream | undefined;

/** To be read while rendering: renders again when something of the kind has changed. */
export function thingsOf<K extends Kind>(kind: K): ThingsOf<K> {
  void revisions.get(kind)?.value;
  return things.of(kind);
}

/** Grows with each change of the kind: what is reckoned from its things is reckoned anew. */
export function revisionOf(kind: Kind): number {
  return revisions.get(kind)?.value ?? 0;
}

export function retryNow(): void {
  stream?.retryNow();
}

/** Opens the stream when this tab has a place, and another one for another key, namespace or prefix. */
export function beginLive(): void {
  effect(() => {
    const asking = caller();
    const watched = prefix.value;
    if (refusedKey.value !== undefined) return;
    forget();
    if (place.value !== 'had') {
      connection.value = { state: 'connecting', since: Date.now() };
      return;
    }
    const own = new Stream(asking, watched, {
      connection(now) {
        if (stream !== own) return;
        if (now.state === 'stopped' && now.problem.status === 401) refusedKey.value = now.problem;
        connection.value = now;
      },
      event(event) {
        if (stream !== own) return;
        if (event.id !== undefined) noteInstant(event.id);
        for (const kind of things.apply(event)) changed.add(kind);
        if (event.event === 'state') draw();
        else drawing ??= setTimeout(draw, DRAW_EVERY_MS);
      },
      denied(kind, refusal) {
        if (stream !== own) return;
        things.forget(kind);
        changed.add(kind);
        drawing ??= setTimeout(() => draw(false), DRAW_EVERY_MS);
        unreadable.value = new Map(unreadable.peek()).set(kind, refusal);
      },
    });
    stream = own;
    own.open();
    return () => {
      own.close();
      stream = undefined;
    };
  });
}

function forget(): void {
  things.clear();
  for (const kind of KINDS) changed.add(kind);
  batch(() => {
    unreadable.value = new Map();
    isTold.value = false;
    draw(false);
  });
}

function draw(isState = true): void {
  clearTimeout(drawing);
  drawing = undefined;
  batch(() => {
    if (isState) isTold.value = true;
    for (const kind of changed) {
      const revision = revisions.get(kind);
      if (revision !== undefined) revision.value = revision.peek() + 1;
    }
  });
  changed.clear();
}
