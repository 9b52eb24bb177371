/** Clients raise barriers, lift them, look at them and wait until they are lifted. */
import { barrierModel, type BarrierInput, type BarrierOutput } from '../models.js';
import { ask, complaints, expected, type Workload } from '../workload.js';

const WAIT_MAX_MS = 500;

export const barrier: Workload<BarrierInput, BarrierOutput> = {
  kind: 'barrier',

  async start(history, { replica, random, object }, client) {
    return async () => {
      const name = object();
      const path = `/v1/barriers/${name}`;
      const choice = random();
      if (choice < 0.25) {
        await history.record(name, client, { do: 'raise' }, async () => {
          const reply = await ask(replica(), 'PUT', path);
          return reply && expected(reply, [200, 201]) && { raised: true };
        });
      } else if (choice < 0.5) {
        await history.record(name, client, { do: 'lift' }, async () => {
          const reply = await ask(replica(), 'DELETE', path);
          return reply && expected(reply, [204]) && { raised: false };
        });
      } else {
        const wait = choice < 0.75 ? `?waitMs=${Math.floor(random() * WAIT_MAX_MS)}` : '';
        await history.record(name, client, { do: 'look' }, async () => {
          const reply = await ask(replica(), 'GET', path + wait);
          return reply && { raised: (expected(reply, [200]).body as { raised: boolean }).raised };
        });
      }
    };
  },

  check: (operations) => complaints(barrierModel, operations),
};
