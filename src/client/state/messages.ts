/** The messages to a group, as they come: by long poll from a cursor, through whichever replica answers. */
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';

export interface ListenOptions {
  /** The number of the last message that was seen, or a `cursor()`; 0: all that are kept. Default: from now on. */
  after?: number;
  /** Ends it: the loop over it is left. */
  signal?: AbortSignal;
}

export type GroupMessage = Schemas['GroupMessage'] & {
  /** Whether messages before this one were dropped before they could be read: learn by other means what they said. */
  missed: boolean;
};

const READ = 'GET /v1/groups/{name}/messages';

/** It goes on if nobody answers, and then misses nothing that is kept. */
export async function* listen(
  { gateways, rounds, keeper }: Context,
  name: string,
  { after, signal }: ListenOptions,
): AsyncGenerator<GroupMessage, void> {
  let cursor = after;
  let missed = false;
  while (!signal?.aborted) {
    keeper.closed.throwIfAborted();
    const isFirst = cursor === undefined;
    const round = isFirst ? { waitMs: 0, last: false } : rounds.next(Infinity);
    const query = { waitMs: round.waitMs, ...(cursor !== undefined && { after: cursor }) };
    const options = { signals: [signal, keeper.closed], ...(!isFirst && { patienceMs: Infinity }) };
    try {
      const { body } = await gateways.call(READ, { path: { name }, query }, options);
      missed ||= body.missed;
      for (const message of body.messages) {
        yield { ...message, missed };
        missed = false;
      }
      ({ cursor } = body);
    } catch (error) {
      if (signal?.aborted) return;
      if (!rounds.tooLong(error, round)) throw error;
    }
  }
}
