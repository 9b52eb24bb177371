/** Candidates who campaign, lead and resign; the terms of an election are the fencing tokens of its leaders. */
import { lineWorkload } from './line.js';

export const election = lineWorkload({
  kind: 'election',
  collection: '/v1/elections',
  limit: 1,
  leadsUntold: true,
  acquire: 'campaign',
  release: 'resign',
  id: 'candidateId',
  shape: () => ({}),
  whole: {},
  tokens: (view) => {
    const { leader } = view as { leader: { fencingToken: number } | null };
    return leader === null ? [] : [leader.fencingToken];
  },
});
