/** Clients acquire locks, with and without waiting, release them, and look who holds them. */
import { holdsModel, type HoldInput, type HoldOutput } from '../models.js';
import { ask, complaints, type Workload } from '../workload.js';

const TTL_MS = 20_000;

export const lock: Workload<HoldInput, HoldOutput> = {
  kind: 'lock',

  async start(history, { replica, random, object }, client) {
    const { leaseToken } = await replica().createLease({ ttlMs: TTL_MS });
    return async () => {
      const name = object();
      const path = `/v1/locks/${name}`;
      const choice = random();
      if (choice < 0.4) {
        const waitMs = random() < 0.5 ? 0 : Math.floor(random() * 100);
        await history.record(name, client, { do: 'acquire', by: client }, async () => {
          const reply = await ask(replica(), 'POST', `${path}/acquire`, { body: { waitMs }, leaseToken });
          if (reply === undefined) return undefined;
          return reply.status === 200
            ? { token: (reply.body as { fencingToken: number }).fencingToken }
            : { refused: true };
        });
      } else if (choice < 0.8) {
        await history.record(name, client, { do: 'release', by: client }, async () => {
          const reply = await ask(replica(), 'POST', `${path}/release`, { body: {}, leaseToken });
          return reply && { done: reply.status === 204 };
        });
      } else {
        await history.record(name, client, { do: 'show' }, async () => {
          const reply = await ask(replica(), 'GET', path);
          if (reply === undefined) return undefined;
          const { holders } = reply.body as { holders: { fencingToken: number }[] };
          return { tokens: holders.map(({ fencingToken }) => fencingToken) };
        });
      }
    };
  },

  check: (operations) => complaints(holdsModel(), operations),
};
