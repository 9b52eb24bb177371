/** The header `Guard`: the hold that a write depends on. */
import { InvalidError } from '../../errors.js';
import type { LineKind } from '../../leases/layout.js';
import type { Guard } from '../../recipes/guard.js';
import type { Exchange } from '../exchange.js';

const GUARD = /^(lock|rwlock|semaphore|election)=([^;]+) *; *token=(\d+)$/;

/** The contract has checked it, but for the size of the token. */
export function guardOf(exchange: Exchange): Guard | undefined {
  const [, kind, name, token] = GUARD.exec((exchange.headers['guard'] as string | undefined) ?? '') ?? [];
  if (kind === undefined || name === undefined) return undefined;
  const fencingToken = Number(token);
  if (!Number.isSafeInteger(fencingToken))
    throw new InvalidError('Guard', exchange.headers['guard'], 'with a token of at most 9007199254740991');
  return { kind: kind as LineKind, name: name.trimEnd(), fencingToken };
}
