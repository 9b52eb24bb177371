/** Clients add to counters, read them, set them where they stand as expected, and delete them. */
import type { Reply } from '../../support/http/client.js';
import { counterModel, type CounterInput, type CounterOutput } from '../models.js';
import { ask, complaints, expected, type Workload } from '../workload.js';

export const counter: Workload<CounterInput, CounterOutput> = {
  kind: 'counter',

  async start(history, { replica, random, object }, client) {
    return async () => {
      const name = object();
      const path = `/v1/counters/${name}`;
      const choice = random();
      if (choice < 0.5) {
        const by = 1 + Math.floor(random() * 3);
        await history.record(name, client, { do: 'add', by }, async () =>
          value(await ask(replica(), 'POST', `${path}/add`, { body: { by } })),
        );
      } else if (choice < 0.8) {
        await history.record(name, client, { do: 'get' }, async () => value(await ask(replica(), 'GET', path)));
      } else if (choice < 0.87) {
        await history.record(name, client, { do: 'delete' }, async () => {
          const reply = await ask(replica(), 'DELETE', path);
          return reply && { deleted: expected(reply, [204, 404]).status === 204 };
        });
      } else {
        const [to, from] = [Math.floor(random() * 5), Math.floor(random() * 5)];
        await history.record(name, client, { do: 'set', value: to, expected: from }, async () =>
          value(await ask(replica(), 'PUT', path, { body: { value: to, expected: from } })),
        );
      }
    };
  },

  check: (operations) => complaints(counterModel, operations),
};

function value(reply: Reply | undefined): CounterOutput | undefined {
  if (reply === undefined) return undefined;
  return reply.status === 412 ? { mismatch: true } : { value: (reply.body as { value: number }).value };
}
