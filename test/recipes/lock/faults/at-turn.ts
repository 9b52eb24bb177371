/** What tests of locks by priority let happen around a turn: the transaction that goes from the room into the line. */
import type { Requester } from '../../../../src/time.js';
import { onSessions } from '../../../support/lease-work.js';
import type { Replica } from '../../../support/start-gateway.js';

interface Meanwhile {
  /** When the replica is about to take a turn: it has listed room and line. */
  before?: (requester?: Requester) => unknown;
  /** When it has taken one, and has not been granted yet. */
  after?: (requester?: Requester) => unknown;
}

/** Lets it happen once, at the next turn that the replica takes. */
export function atTurn(replica: Replica, { before, after }: Meanwhile): void {
  let isDone = false;
  onSessions(replica, (session, requester) => {
    const multi = session.multi.bind(session);
    session.multi = async (items, until) => {
      const isTurn = items.some(({ type, path }) => type === 'setData' && path.includes('/lock-rooms/'));
      if (!isTurn || isDone) return multi(items, until);
      isDone = true;
      await before?.(requester);
      const results = await multi(items, until);
      await after?.(requester);
      return results;
    };
  });
}
