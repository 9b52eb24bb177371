/** Pages of lists that may end at a name that the caller must not know; their page tokens are sealed. */
import { InvalidError } from '../../../errors.js';
import { isSealed, type PageTokens } from '../../../leases/page-token.js';
import type { Page, PageEnd } from '../../../page.js';
import type { Exchange } from '../../frame/exchange.js';
import { pageOf, pageTokenOf } from './subject.js';

/**
 * As `pageOf`, also for a sealed token.
 * @param list identifies the list, with its namespace
 */
export async function sealedPageOf(
  exchange: Exchange,
  tokens: PageTokens,
  list: string,
  pattern?: RegExp,
): Promise<Page> {
  const token = exchange.query['pageToken'] as string | undefined;
  if (token === undefined || !isSealed(token)) return pageOf(exchange, pattern);
  const after = await tokens.open(list, token, exchange.deadline);
  if (after === undefined) throw new InvalidError('pageToken', token, 'one that this list answered', { in: 'query' });
  return { ...pageOf({ query: { ...exchange.query, pageToken: undefined } }), after };
}

export async function sealedTokenOf(
  exchange: Exchange,
  tokens: PageTokens,
  list: string,
  end: PageEnd | undefined,
): Promise<{ nextPageToken?: string }> {
  if (end?.secret === true) return { nextPageToken: await tokens.seal(list, end.at, exchange.deadline) };
  return pageTokenOf(end?.at);
}
