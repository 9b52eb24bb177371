/** The event stream of who holds a name. */
import type { LineKind } from '../../leases/layout.js';
import type { HolderState, LineObservers } from '../../recipes/line-observer.js';
import type { EventStream, Exchange } from '../exchange.js';
import { stateStream } from './state-stream.js';

/** @param show what a state is in the words of the contract */
export function holderStream(
  exchange: Exchange,
  observers: LineObservers,
  kind: LineKind,
  directory: string,
  show: (state: HolderState) => unknown,
): EventStream {
  return stateStream(exchange, (subscriber) => observers.subscribe(kind, directory, subscriber), show);
}
