/** Clients of pools, who take one member or two; whom else each of them belongs to is judged as well. */
import { lineWorkload, type LineKind, type Shape } from './line.js';

const SIZE = 3;
/** A lease ends up to some seconds after the last that its client knows of it: a quarantine is seen if it is longer. */
const QUARANTINE_MS = 8_000;

const POOL: LineKind = {
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
};

export const pool = lineWorkload(POOL);

/** Of pools whose lost members rest. */
export const restingPool = lineWorkload({
  ...POOL,
  kind: 'resting-pool',
  definition: { of: SIZE, quarantineMs: QUARANTINE_MS },
  quarantineMs: QUARANTINE_MS,
});

function members(count: number): Shape {
  return { permits: count, body: { count, prefer: 'same' } };
}
