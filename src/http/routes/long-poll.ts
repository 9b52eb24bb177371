/** The half of a long poll that all resources share: what the client knows, and what it is told when nothing changed. */
import { PosternError } from '../../errors.js';
import { endReason } from '../../time.js';
import type { Answer, Exchange } from '../exchange.js';
import { matchesEtag } from './etag.js';

export interface LongPoll {
  /** Of `waitMs`, 0 without. */
  readonly waitMs: number;
  /** Whether the client sent an ETag, and asked to wait until it is not the state any more. */
  readonly waitsForChange: boolean;
  isKnown: (etag: string) => boolean;
}

export function longPollOf(exchange: Exchange): LongPoll {
  const { waitMs = 0 } = exchange.query as { waitMs?: number };
  const known = exchange.headers['if-none-match'] as string | undefined; // node never makes a list of this header
  return {
    waitMs,
    waitsForChange: waitMs > 0 && known !== undefined,
    isKnown: (etag) => known !== undefined && matchesEtag(known, etag),
  };
}

/** @throws PosternError `draining` when the wait was ended because the replica goes */
export function checkDraining({ signal }: Exchange): void {
  if (endReason(signal) === 'draining')
    throw new PosternError('draining', 'This replica is shutting down; repeat the request.');
}

export function notModified(etag: string): Answer {
  return { status: 304, headers: { ETag: etag } };
}
