/** As `claims.ts`, of queues with groups: a message is claimed when what was pushed to its group before is gone. */
import { groupedComplaints, type ClaimInput, type ClaimOutput } from '../queue/claims.js';
import { AFTERWARDS } from '../holds.js';
import { settleAt, type Workload } from '../workload.js';
import { Worker } from './claims.js';

const GROUPS = ['x', 'y', 'z'];

export const grouped: Workload<ClaimInput, ClaimOutput> = {
  kind: 'grouped',

  async start(history, scene, client) {
    const worker = new Worker(history, scene, client, { groups: GROUPS });
    return () => worker.act();
  },

  settle: (history, replica, object) =>
    settleAt(
      replica,
      object,
      (scene) => new Worker(history, scene, AFTERWARDS, { groups: GROUPS }).empty(object),
      Math.random,
    ),

  check: groupedComplaints,
};
