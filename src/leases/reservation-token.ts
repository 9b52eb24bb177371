/**
 * The token of a reservation: whoever has it, and is the same principal, may extend or release the reservation, through
 * any replica. Sealed under the keys of the lease tokens, so that nobody can make one up; it names the reservation and
 * the very place in line that it has, so that it never serves for a later one.
 *
 *   "rt1." base64url( KeyRing.sealBytes( JSON ) )
 */
import { PosternError } from '../errors.js';
import type { LeaseKeys } from './keys.js';

export const RESERVATION_TOKEN_PREFIX = 'rt1.';
/** Longer ones are not genuine: the longest has three texts of 200 characters. */
export const RESERVATION_TOKEN_MAX = 4_096;
const PURPOSE = Buffer.from('postern reservation token 1');

export interface ReservationClaim {
  namespace: string;
  name: string;
  principal: string;
  /** Of its node (`Layout.reservation`). */
  id: string;
  /** The czxid of its place in line. */
  fencingToken: number;
}

/** `stale`: under a key that no longer seals, so the client should get a new token. */
export interface OpenedReservation {
  claim: ReservationClaim;
  stale: boolean;
}

export class ReservationTokens {
  readonly #keys: LeaseKeys;

  constructor(keys: LeaseKeys) {
    this.#keys = keys;
  }

  /** @throws NoReplyError if the shared key must be read and ZooKeeper does not answer by `deadline` */
  async seal({ namespace, name, principal, id, fencingToken }: ReservationClaim, deadline: number): Promise<string> {
    const payload = Buffer.from(JSON.stringify([namespace, name, principal, id, fencingToken]));
    const ring = await this.#keys.ring(deadline);
    return RESERVATION_TOKEN_PREFIX + ring.sealBytes(payload, PURPOSE).toString('base64url');
  }

  /**
   * @param caller must be the principal to which the token was given
   * @throws PosternError `invalid-reservation-token`; NoReplyError as `seal`
   */
  async open(token: string, caller: string, deadline: number): Promise<OpenedReservation> {
    const opened = await this.#open(token, deadline);
    if (opened === undefined)
      throw new PosternError(
        'invalid-reservation-token',
        'The reservation token does not open: it was cut, changed, or sealed under a key that this gateway does not have.',
      );
    if (opened.claim.principal !== caller)
      throw new PosternError('invalid-reservation-token', 'The reservation token was issued to another principal.');
    return opened;
  }

  async #open(token: string, deadline: number): Promise<OpenedReservation | undefined> {
    if (!token.startsWith(RESERVATION_TOKEN_PREFIX) || token.length > RESERVATION_TOKEN_MAX) return undefined;
    const text = token.slice(RESERVATION_TOKEN_PREFIX.length);
    const bytes = Buffer.from(text, 'base64url');
    // Decoding skips what it cannot read, so one token would have endlessly many spellings.
    if (bytes.toString('base64url') !== text) return undefined;
    const opened = (await this.#keys.ring(deadline)).openBytes(bytes, PURPOSE);
    if (opened === undefined) return undefined;
    const [namespace, name, principal, id, fencingToken] = JSON.parse(opened.payload.toString('utf8')) as [
      string,
      string,
      string,
      string,
      number,
    ];
    return { claim: { namespace, name, principal, id, fencingToken }, stale: opened.stale };
  }
}
