/**
 * Masks what callers sent before it reaches logs and traces: a token or a key in the wrong place, such as a name or a
 * reason, must not become public.
 */
import type { IncomingMessage } from 'node:http';
import { LEASE_TOKEN_PREFIX } from '../../leases/lease-token.js';
import { RESERVATION_TOKEN_PREFIX } from '../../leases/reservation-token.js';
import { API_KEY_PREFIX, presentedIn } from '../access/credentials.js';

const OWN_PREFIXES = [LEASE_TOKEN_PREFIX, RESERVATION_TOKEN_PREFIX, API_KEY_PREFIX].join('|').replaceAll('.', '\\.');
/** A token of ours or an API key, or a good part of one; a JSON Web Token, even just its first part. */
const SECRETS = new RegExp(`(${OWN_PREFIXES})[A-Za-z0-9_-]{16,}|(eyJ)[A-Za-z0-9_-]{6,}(?:\\.[A-Za-z0-9_-]*){0,2}`, 'g');
/** Secrets are longer; most names are shorter. */
const LENGTH_MIN = 16;

/**
 * @param request its credential is masked, whatever that looks like
 * @returns values other than texts unchanged
 */
export function masked<T>(value: T, { headers }: Pick<IncomingMessage, 'headers'>): T | string {
  if (typeof value !== 'string' || value.length < LENGTH_MIN) return value;
  const text = value.replace(SECRETS, '$1$2…');
  const { authorization = '' } = headers;
  const bearer = authorization.slice(authorization.indexOf(' ') + 1).trim();
  const secrets = [bearer, presentedIn(authorization) ?? ''].filter(({ length }) => length >= LENGTH_MIN);
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, '…'), text);
}
