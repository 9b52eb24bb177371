/** The verification of a token may wait for the identity provider; no request waits for it longer than it may take. */
import { PosternError } from '../../../errors.js';
import { within } from '../../../time.js';
import type { Credential } from '../credentials.js';

/**
 * The result of `verification`, which goes on for whoever else waits for it.
 * @param leftMs until the request must be answered
 * @throws PosternError 503 when that time is over, or what the verification fails with
 */
export function inTime(verification: Promise<Credential>, leftMs: number): Promise<Credential> {
  return within(verification, leftMs, tooLate);
}

function tooLate(): PosternError {
  return new PosternError(
    'identity-provider-unavailable',
    'The token could not be verified in the time that a request has: the identity provider takes long to answer.',
  );
}
