/** Clients of read-write locks, many of whom write first and then read: no other writer comes in between. */
import { holderTokens, lineWorkload, type Shape } from './line.js';

const READ: Shape = { reads: true, body: { mode: 'read' } };
const WRITE: Shape = { reads: false, body: { mode: 'write' } };
const WRITE_THEN_READ: Shape = {
  reads: false,
  body: { mode: 'write', downgradable: true },
  becomes: { ...READ, downgrades: true },
};

export const downgrade = lineWorkload({
  kind: 'downgrade',
  collection: '/v1/rwlocks',
  limit: 1,
  acquire: 'acquire',
  release: 'release',
  id: 'holdId',
  shape: (random) => {
    const choice = random();
    if (choice < 0.4) return READ;
    return choice < 0.6 ? WRITE : WRITE_THEN_READ;
  },
  whole: WRITE,
  tokens: holderTokens,
});
