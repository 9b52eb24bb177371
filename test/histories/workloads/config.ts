/** Clients write configuration, some where nobody has written since they read, read it and delete it. */
import { registerModel, type RegisterInput, type RegisterOutput } from '../models.js';
import { ask, complaints, type Workload } from '../workload.js';

export const config: Workload<RegisterInput, RegisterOutput> = {
  kind: 'config',

  async start(history, { replica, random, object }, client) {
    const known = new Map<string, string>();
    let puts = 0;
    return async () => {
      const name = object();
      const path = `/v1/config/${name}`;
      const choice = random();
      if (choice < 0.4) {
        await history.record(name, client, { do: 'get' }, async () => {
          const reply = await ask(replica(), 'GET', path);
          if (reply === undefined) return undefined;
          if (reply.status === 404) return { value: null, etag: null };
          const etag = String(reply.headers['etag']);
          known.set(name, etag);
          return { value: String(reply.body), etag };
        });
        return;
      }
      if (choice < 0.5) {
        await history.record(name, client, { do: 'delete' }, async () => {
          const reply = await ask(replica(), 'DELETE', path);
          return reply && { deleted: reply.status === 204 };
        });
        return;
      }
      const ifMatch = choice < 0.8 ? known.get(name) : undefined;
      const value = `${client}-${(puts += 1)}`;
      const input: RegisterInput = { do: 'put', value, ...(ifMatch !== undefined && { ifMatch }) };
      await history.record(name, client, input, async () => {
        const reply = await ask(replica(), 'PUT', path, {
          body: value,
          headers: { 'content-type': 'text/plain', ...(ifMatch !== undefined && { 'if-match': ifMatch }) },
        });
        if (reply === undefined) return undefined;
        if (reply.status === 412) return { mismatch: true };
        const etag = String(reply.headers['etag']);
        known.set(name, etag);
        return { etag };
      });
    };
  },

  check: (operations) => complaints(registerModel, operations),
};
