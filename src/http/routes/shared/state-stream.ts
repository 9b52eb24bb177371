/** Event streams of what is observed. */
import type { EventSink, EventStream, Exchange } from '../../frame/exchange.js';

/**
 * A stream of whatever `subscribe` sends, until the sink is aborted or the subscription fails; then calls the function
 * that `subscribe` returned.
 */
export function subscribedStream(
  exchange: Exchange,
  subscribe: (sink: EventSink, fail: (error: Error) => void) => () => void,
): EventStream {
  const { maxMs } = exchange.query as { maxMs?: number };
  return {
    maxMs,
    events: (sink) =>
      new Promise((resolve, reject) => {
        const end = (): void => {
          // The first call may come before `subscribe` has returned.
          queueMicrotask(() => unsubscribe());
          resolve();
        };
        const unsubscribe = subscribe(sink, (error) => {
          reject(error);
          end();
        });
        if (sink.signal.aborted) end();
        else sink.signal.addEventListener('abort', end, { once: true });
      }),
  };
}

/**
 * The stream of a state: `state` first, and again after every change that clients are told; its id is the ETag without
 * the quotes.
 *
 * @param subscribe calls back with the state as soon as it is known, and with every change, until the function that it
 *   returns is called
 * @param show the state in the words of the contract; undefined: send nothing for it
 */
export function stateStream<S extends { etag: string }>(
  exchange: Exchange,
  subscribe: (subscriber: (state: S) => void) => () => void,
  show: (state: S) => unknown,
): EventStream {
  return subscribedStream(exchange, (sink) => {
    let told: string | undefined;
    return subscribe((state) => {
      if (state.etag === told) return;
      told = state.etag;
      const data = show(state);
      if (data !== undefined) sink.send({ event: 'state', id: state.etag.slice(1, -1), data });
    });
  });
}
