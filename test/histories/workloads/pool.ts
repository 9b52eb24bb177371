/** Clients of pools, who take one member or two; whom else each of them belongs to is judged as well. */
import { lineWorkload, type Shape } from './line.js';

const SIZE = 3;

export const pool = lineWorkload({
  kind: 'pool',
  collection: '/v1/pools',
  limit: SIZE,
  definition: { of: SIZE },
  acquire: 'acquire',
  release: 'release',
  id: 'holdId',
  shape: (random) => members(random() < 0.6 ? 1 : 2),
  whole: members(SIZE),
  tokens: (view) => (view as { held: { fencingToken: number }[] }).held.map(({ fencingToken }) => fencingToken),
  members: (answer) => (answer['members'] as { id: string }[]).map(({ id }) => id),
});

function members(count: number): Shape {
  return { permits: count, body: { count, prefer: 'same' } };
}
