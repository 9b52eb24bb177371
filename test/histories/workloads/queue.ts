/** Clients push messages and pop them; in the end everything is popped. */
import type { Client } from '../../support/http/client.js';
import { NotApplied } from '../history.js';
import { queueModel, type QueueInput, type QueueOutput } from '../models.js';
import { settleQueue } from '../queue/settle-queue.js';
import { ask, complaints, inOrder, type Recorder, type Workload } from '../workload.js';

export const queue: Workload<QueueInput, QueueOutput> = {
  kind: 'queue',

  async start(history, { replica, random, object }, client) {
    let pushes = 0;
    return async () => {
      const name = object();
      if (random() < 0.55) {
        const id = `${client}-${(pushes += 1)}`;
        await history.record(name, client, { do: 'push', id }, async () => {
          const body = { messages: [{ body: id }] };
          const reply = await ask(replica(), 'POST', `/v1/queues/${name}/messages`, { body });
          return reply && { pushed: true };
        });
      } else {
        await pop(history, replica(), name, client);
      }
    };
  },

  async settle(history, replica, name) {
    for (;;) {
      const output = await pop(history, replica, name, 'afterwards').catch((error: unknown) => {
        if (!(error instanceof NotApplied)) throw error;
        return undefined;
      });
      if (output !== undefined && 'popped' in output && output.popped === null) return;
    }
  },

  check(operations) {
    let found: string[] = ['more messages are missing than pops of unknown outcome can have taken'];
    for (const settled of settleQueue(inOrder(operations))) {
      found = complaints(queueModel, settled);
      if (found.length === 0) break;
    }
    return found;
  },
};

async function pop(
  history: Recorder<QueueInput, QueueOutput>,
  replica: Client,
  name: string,
  client: string,
): Promise<QueueOutput | undefined> {
  return history.record(name, client, { do: 'pop' }, async () => {
    const reply = await ask(replica, 'POST', `/v1/queues/${name}/pop`, { body: {} });
    if (reply === undefined) return undefined;
    const [item] = reply.status === 204 ? [] : (reply.body as { items: { body: string }[] }).items;
    return { popped: item?.body ?? null };
  });
}
