/** The event stream of a state that is observed: `state` first, and again after every change; its id is the ETag without the quotes. */
import type { EventStream, Exchange } from '../exchange.js';

/**
 * @param subscribe calls back with the state as soon as it is known, and with every change, until the function that it returns is called
 * @param show what a state is in the words of the contract
 */
export function stateStream<S extends { etag: string }>(
  exchange: Exchange,
  subscribe: (subscriber: (state: S) => void) => () => void,
  show: (state: S) => unknown,
): EventStream {
  const { maxMs } = exchange.query as { maxMs?: number };
  return {
    maxMs,
    events: (sink) =>
      new Promise((resolve) => {
        const unsubscribe = subscribe((state) => {
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
