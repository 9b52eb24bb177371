/** Clients of semaphores, who take one permit or two. */
import { holderTokens, lineWorkload, type Shape } from './line.js';

const LIMIT = 3;

export const semaphore = lineWorkload({
  kind: 'semaphore',
  collection: '/v1/semaphores',
  limit: LIMIT,
  acquire: 'acquire',
  release: 'release',
  id: 'holdId',
  shape: (random) => permits(random() < 0.6 ? 1 : 2),
  whole: permits(LIMIT),
  tokens: holderTokens,
});

function permits(count: number): Shape {
  return { permits: count, body: { limit: LIMIT, count } };
}
