/** What a request is answered whose wait in a line has ended without what it waited for, whatever the kind of line. */
import { PosternError } from '../../../errors.js';
import { endReason } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange } from '../../frame/exchange.js';
import { checkCredential } from './long-poll.js';

type KeptPlace = components['schemas']['KeptPlace'];

/** The place stays for as long as the lease: 202, as long as the credential allows the request. */
export function keptPlace(exchange: Exchange, place: Omit<KeptPlace, 'held'>): Answer {
  checkCredential(exchange, 'unknown');
  const { name, position, ...more } = place;
  const body: KeptPlace = { name, held: false, position: Math.max(1, position), ...more };
  return { status: 202, body };
}

/** @param place as in "place in line for x": it stands, and may be granted */
export function drainingInPlace(place: string): PosternError {
  return new PosternError(
    'draining',
    `This replica is shutting down. The ${place} is kept; repeat the same request, another replica takes it up.`,
    { members: { placeKept: true }, outcome: 'unknown' },
  );
}

/** Nobody reads the answer, unless it is the replica that goes. */
export function leftTheLine({ signal }: Exchange): PosternError {
  return new PosternError(endReason(signal) === 'draining' ? 'draining' : 'conflict', 'The client went away.');
}
