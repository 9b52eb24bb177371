/** The header `Guard`: the hold on which a write depends. */
import { InvalidError } from '../../../errors.js';
import type { LineKind } from '../../../leases/layout.js';
import type { Guard } from '../../../recipes/line/guard.js';
import type { Exchange } from '../../frame/exchange.js';

const GUARD = /^(lock|rwlock|semaphore|election)=([^;]+) *; *token=(\d+)$/;

/**
 * The contract does not check the token's size, nor that the header is not empty: a write without its guard must not
 * happen.
 */
export function guardOf(exchange: Exchange): Guard | undefined {
  const text = exchange.headers['guard'] as string | undefined;
  if (text === undefined) return undefined;
  const [, kind, name, token] = GUARD.exec(text) ?? [];
  if (kind === undefined || name === undefined)
    throw new InvalidError('Guard', text, 'absent, or such as lock=NAME;token=FENCING_TOKEN', { in: 'header' });
  const fencingToken = Number(token);
  if (!Number.isSafeInteger(fencingToken))
    throw new InvalidError('Guard', exchange.headers['guard'], 'with a token of at most 9007199254740991', {
      in: 'header',
    });
  return { kind: kind as LineKind, name: name.trimEnd(), fencingToken };
}
