/** Clients of locks by priority: each asks with one of its own, and keeps it when it asks again. */
import { PRIORITY_MAX } from '../../../src/recipes/line/room/rank.js';
import { holderTokens, lineWorkload } from './line.js';

export const priority = lineWorkload({
  kind: 'priority',
  collection: '/v1/locks',
  limit: 1,
  acquire: 'acquire',
  release: 'release',
  id: 'holdId',
  shape: (random) => ({ body: { priority: Math.floor(random() * (PRIORITY_MAX + 1)) } }),
  whole: { body: { priority: 0 } },
  tokens: holderTokens,
});
