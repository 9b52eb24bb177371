/**
 * The place of this tab among those that have a stream. Over HTTP/1.1 a browser opens six connections to one gateway
 * for all that its tabs ask, and a stream keeps one of them: with six streams no tab could ask for anything any more,
 * and the next one would be "connecting" for ever. So five tabs have a stream, and the last connection is for the rest.
 *
 *   asks for a place ─▶ has one ─▶ hidden, and a tab that is seen wants one ─▶ asks again, behind that one
 *          └─▶ five tabs have theirs ─▶ waits until one of them is closed or gives way
 *
 * A place is a lock of the browser (Web Locks), which ends with its tab. Pages from another host than this one have
 * those only with TLS (secure contexts); where there are none, or no such limit (HTTP/2), every tab has a place.
 */
import { signal } from '@preact/signals';

const PLACES = ['1', '2', '3', '4', '5'].map((number) => `postern-stream-${number}`);

export type Place = 'asked' | 'waits' | 'had';

export const place = signal<Place>('asked');

/** What a tab says in which somebody waits for a place. */
const WANTED = 'wanted';
let giveBack: (() => void) | undefined;

export function beginPlace(): void {
  if (!isScarce()) {
    place.value = 'had';
    return;
  }
  const tabs = new BroadcastChannel('postern-console');
  const want = (): void => {
    if (place.peek() === 'waits' && !document.hidden) tabs.postMessage(WANTED);
  };
  tabs.addEventListener('message', () => {
    if (!document.hidden || giveBack === undefined) return;
    giveBack();
    giveBack = undefined;
    void ask(want);
  });
  document.addEventListener('visibilitychange', want);
  void ask(want);
}

function isScarce(): boolean {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return 'locks' in navigator && !/^h[23]/.test(page?.nextHopProtocol ?? '');
}

/** Asks for every place, and takes the first that it is given. */
async function ask(want: () => void): Promise<void> {
  place.value = 'asked';
  const enough = new AbortController();
  for (const name of PLACES)
    navigator.locks
      .request(name, { signal: enough.signal }, () => {
        if (enough.signal.aborted) return undefined;
        enough.abort();
        return new Promise<void>((resolve) => {
          giveBack = resolve;
          place.value = 'had';
        });
      })
      .catch(() => undefined); // no longer asked for
  // It is answered after what was asked before it.
  await navigator.locks.query();
  if (place.peek() !== 'asked') return;
  place.value = 'waits';
  want();
}
