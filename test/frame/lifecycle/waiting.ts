/**
 * Requests that wait.
 */
import type { Exchange, Handler } from '../../../src/http/frame/exchange.js';
import { eventually } from '../../support/eventually.js';
import { held } from '../client.js';
import type { Frame } from '../harness.js';

/** An `acquireLock` that waits until its signal is aborted or the test lets go, and remembers what it saw. */
export function waiting(): { handler: Handler; seen: Exchange[]; letGo: () => void; undelivered: number } {
  let letGo: () => void = () => undefined;
  const state = {
    seen: [] as Exchange[],
    undelivered: 0,
    letGo: () => letGo(),
    handler: async (exchange: Exchange) => {
      state.seen.push(exchange);
      await new Promise<void>((resolve) => {
        if (exchange.signal.aborted) resolve();
        letGo = resolve;
        exchange.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      return { ...(await held(exchange)), undelivered: () => void (state.undelivered += 1) };
    },
  };
  return state;
}

export const waits = (frame: Frame, count: number): Promise<boolean> =>
  eventually(`${count} requests wait`, () => frame.app.waiters() === count);
