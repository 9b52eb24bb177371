/**
 * The place of this tab among those that have a stream. Over HTTP/1.1 a browser opens six connections to one gateway
 * for all that its tabs ask, and a stream keeps one of them: with six streams no tab could ask for anything any more,
 * and the next one would be "connecting" for ever. So five tabs have a stream, and the last connection is for the rest.
 *
 *   asks for a place ─▶ has one ─▶ hidden: offers it to tabs that are seen; one takes it ─▶ asks again, behind that one
 *          └─▶ five tabs have theirs ─▶ waits until one of them is closed or gives way
 *
 * A place is a lock of the browser (Web Locks), which ends with its tab. Pages from another host than this one have
 * those only with TLS (secure contexts); where there are none, or no such limit (HTTP/2), every tab has a place.
 */
import { signal } from '@preact/signals';

const PLACES = ['1', '2', '3', '4', '5'].map((number) => `postern-stream-${number}`);

export type Place = 'asked' | 'waits' | 'had';

export const place = signal<Place>('asked');

/**
 * A hidden tab offers its place; one that waits and is seen takes it, and no other until that one is settled: whoever
 * has it now says so, be it the taker, another tab that had asked for it before, or the one that offered it and is seen
 * again. Those that had chosen it and did not get it begin anew.
 */
type Said = { readonly what: 'wanted' } | { readonly what: 'offered' | 'taken' | 'settled'; readonly place: string };

interface Had {
  readonly name: string;
  readonly giveBack: () => void;
}

let had: Had | undefined;

export function beginPlace(): void {
  if (!isScarce()) {
    place.value = 'had';
    return;
  }
  const tabs = new BroadcastChannel('postern-console');
  const say = (said: Said): void => tabs.postMessage(said);
  /** The place that this tab has asked a hidden one for. */
  let chosen: string | undefined;
  const want = (): void => {
    if (chosen === undefined && place.peek() === 'waits' && !document.hidden) say({ what: 'wanted' });
  };
  const offer = (): void => {
    if (had !== undefined && document.hidden) say({ what: 'offered', place: had.name });
  };
  const tell = (): void => {
    want();
    offer();
  };
  const settle = (): void => {
    chosen = undefined;
    if (had !== undefined) say({ what: 'settled', place: had.name });
    tell(); // of those that wait a hidden one may have come first
  };
  tabs.addEventListener('message', ({ data: said }: MessageEvent<Said>) => {
    if (said.what === 'wanted') offer();
    else if (said.what === 'settled') {
      if (chosen !== said.place) return;
      chosen = undefined;
      want();
    } else if (said.what === 'offered') {
      if (place.peek() !== 'waits' || document.hidden || chosen !== undefined) return;
      chosen = said.place;
      say({ what: 'taken', place: chosen });
    } else if (had?.name === said.place) {
      if (!document.hidden) return settle();
      had.giveBack();
      had = undefined;
      void ask(settle);
    }
  });
  document.addEventListener('visibilitychange', tell);
  void ask(settle);
}

function isScarce(): boolean {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return 'locks' in navigator && !/^h[23]/.test(page?.nextHopProtocol ?? '');
}

/**
 * Asks for every place, and keeps the first that it is given.
 * @param settle what follows when it is given one, or none for now
 */
async function ask(settle: () => void): Promise<void> {
  place.value = 'asked';
  const enough = new AbortController();
  // No longer asked for; or there are no locks where site data is blocked, and then no tab waits for another.
  const refused = (): void => {
    if (enough.signal.aborted) return;
    enough.abort();
    place.value = 'had';
  };
  for (const name of PLACES)
    navigator.locks
      .request(name, { signal: enough.signal }, () => {
        if (enough.signal.aborted) return undefined;
        enough.abort();
        return new Promise<void>((giveBack) => {
          had = { name, giveBack };
          place.value = 'had';
          settle();
        });
      })
      .catch(refused);
  // It is answered after what was asked before it.
  await navigator.locks.query().catch(refused);
  if (place.peek() !== 'asked') return;
  place.value = 'waits';
  settle();
}
