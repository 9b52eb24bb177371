/** `POST /v1/queues/claim`: from the first of several queues that has messages, in the words of the contract. */
import type { Coordination } from '../../recipes/coordination.js';
import { claimFromFirst } from '../../recipes/queue/claim/first-of-many.js';
import type { Queues } from '../../recipes/queue/queues.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange } from '../frame/exchange.js';
import { demandOf, nothingFound, showClaimed } from './queue-words.js';
import { leaseOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

export async function claimFromQueues(context: Coordination, queues: Queues, exchange: Exchange): Promise<Answer> {
  const body = exchange.body as Schemas['ClaimFromQueuesRequest'];
  const { queues: names, claimMs } = body;
  const lease = await leaseOf(exchange, context.leases);
  for (const name of names) exchange.authorize('use', lease.namespace, { name });
  const { items, undelivered } = await claimFromFirst(context, queues, {
    namespace: lease.namespace,
    names,
    claim: { lease, requestId: requestIdOf(exchange, body), claimMs },
    ...demandOf(exchange),
  });
  if (items.length === 0) return nothingFound(exchange);
  const answer: Schemas['ClaimedFromQueues'] = {
    items: items.map((item) => ({ queue: item.queue, ...showClaimed(item) })),
  };
  return { status: 200, body: answer, undelivered };
}
