/** The header `Guard`: the hold that a write depends on. */
import { InvalidError } from '../../errors.js';
import type { LineKind } from '../../leases/layout.js';
import type { Guard } from '../../recipes/guard.js';
import type { Exchange } from '../exchange.js';

const GUARD = /^(lock|rwlock|semaphore|election)=([^;]+) *; *token=(\d+)$/;

/** The contract has checked it, but for the size of the token, and that it is not empty: a write without its guard must not happen. */
export function guardOf(exchange: Exchange): Guard | undefined {
  const text = exchange.headers['guard'] as string | undefined;
  if (text === undefined) return undefined;
  const [, kind, name, token] = GUARD.exec(text) ?? [];
  if (kind === undefined || name === undefined)
    throw new InvalidError('Guard', text, 'absent, or such as lock=NAME;token=FENCING_TOKEN');
  const fencingToken = Number(token);
  if (!Number.isSafeInteger(fencingToken))
    throw new InvalidError('Guard', exchange.headers['guard'], 'with a token of at most 9007199254740991');
  return { kind: kind as LineKind, name: name.trimEnd(), fencingToken };
}
