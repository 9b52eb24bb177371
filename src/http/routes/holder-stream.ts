/** The event stream of who holds a name: `state` first, and again after every change; its id is the ETag without the quotes. */
import type { LineKind } from '../../leases/layout.js';
import type { HolderState, LineObservers } from '../../recipes/line-observer.js';
import type { EventStream, Exchange } from '../exchange.js';

/** @param show what a state is in the words of the contract */
export function holderStream(
  exchange: Exchange,
  observers: LineObservers,
  kind: LineKind,
  directory: string,
  show: (state: HolderState) => unknown,
): EventStream {
  const { maxMs } = exchange.query as { maxMs?: number };
  return {
    maxMs,
    events: (sink) =>
      new Promise((resolve) => {
        const unsubscribe = observers.subscribe(kind, directory, (state) => {
          sink.send({ event: 'state', id: state.etag.slice(1, -1), data: show(state) });
        });
        const end = (): void => {
          unsubscribe();
          resolve();
        };
        if (sink.signal.aborted) end();
        else sink.signal.addEventListener('abort', end, { once: true });
      }),
  };
}
