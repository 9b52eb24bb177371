/** Clients of read-write locks, most of whom read. */
import { holderTokens, lineWorkload } from './line.js';

export const rwlock = lineWorkload({
  kind: 'rwlock',
  collection: '/v1/rwlocks',
  limit: 1,
  acquire: 'acquire',
  release: 'release',
  id: 'holdId',
  shape: (random) =>
    random() < 0.65 ? { reads: true, body: { mode: 'read' } } : { reads: false, body: { mode: 'write' } },
  whole: { reads: false, body: { mode: 'write' } },
  tokens: holderTokens,
});
