/** Clients of locks. */
import { holderTokens, lineWorkload } from './line.js';

export const lock = lineWorkload({
  kind: 'lock',
  collection: '/v1/locks',
  limit: 1,
  acquire: 'acquire',
  release: 'release',
  id: 'holdId',
  shape: () => ({}),
  whole: {},
  tokens: holderTokens,
});
