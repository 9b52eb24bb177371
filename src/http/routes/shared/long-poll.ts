/** What all long polls share: the state that the client knows, and the answer if nothing changed. */
import { PosternError, type Outcome } from '../../../errors.js';
import { endReason } from '../../../time.js';
import type { Answer, Exchange } from '../../frame/exchange.js';
import { matchesEtag } from './etag.js';

/** @typeParam S the state, as it is observed or read */
export interface LongPoll<S = unknown> {
  /** From the query; 0 if absent. */
  readonly waitMs: number;
  /** Whether the client asked to wait for the wanted state. */
  readonly waits: boolean;
  readonly isWanted: (etag: string, state: S) => boolean;
  /** Whether the client already has this state, by its `If-None-Match`. */
  readonly isKnown: (etag: string) => boolean;
}

/** Waits if the client sent an ETag, until the state has another one. */
export function longPollOf(exchange: Exchange): LongPoll {
  const { waitMs = 0 } = exchange.query as { waitMs?: number };
  const known = exchange.headers['if-none-match'] as string | undefined; // node never makes a list of this header
  const isKnown = (etag: string): boolean => known !== undefined && matchesEtag(known, etag);
  return { waitMs, waits: waitMs > 0 && known !== undefined, isWanted: (etag) => !isKnown(etag), isKnown };
}

/**
 * After a wait in vain: checks whether it was ended early.
 * @param outcome of what the request did before it waited
 * @throws PosternError `draining` if the replica is leaving, and as `checkCredential`
 */
export function checkEnded(exchange: Exchange, outcome: Outcome = 'not-applied'): void {
  checkCredential(exchange, outcome);
  if (endReason(exchange.signal) === 'draining')
    throw new PosternError('draining', 'This replica is shutting down; repeat the request.', { outcome });
}

/**
 * @throws PosternError `unauthenticated` if the wait ended because the credential no longer allows it; the frame adds
 *   why
 */
export function checkCredential({ signal }: Exchange, outcome: Outcome): void {
  if (endReason(signal) === 'refused')
    throw new PosternError('unauthenticated', 'The credential of this request is not good for it any more.', {
      outcome,
    });
}

export function notModified(etag: string): Answer {
  return { status: 304, headers: { ETag: etag } };
}
