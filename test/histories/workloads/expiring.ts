/** As `claims.ts`, of messages that expire: some soon, and some long after everybody has gone. */
import { AFTERWARDS } from '../holds.js';
import type { ClaimInput, ClaimOutput } from '../queue/claims.js';
import { expiryComplaints } from '../queue/expiry.js';
import { settleAt, type Workload } from '../workload.js';
import { Worker, type WorkRules } from './claims.js';

const SOON_MS = [500, 12_000] as const;
const LATE_MS = 3_600_000;

const RULES: WorkRules = {
  expiresInMs: (random) => {
    const [least, most] = SOON_MS;
    return random() < 0.5 ? LATE_MS : least + Math.floor(random() * (most - least));
  },
};

export const expiring: Workload<ClaimInput, ClaimOutput> = {
  kind: 'expiring',

  async start(history, scene, client) {
    const worker = new Worker(history, scene, client, RULES);
    return () => worker.act();
  },

  settle: (history, replica, object) =>
    settleAt(replica, object, (scene) => new Worker(history, scene, AFTERWARDS, RULES).empty(object), Math.random),

  check: expiryComplaints,
};
