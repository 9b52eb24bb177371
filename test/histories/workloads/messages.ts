/** Clients post messages to groups, and read them, each from a cursor of its own, now and then waiting for the next. */
import { randomUUID } from 'node:crypto';
import type { Reply } from '../../support/http/client.js';
import { NotApplied } from '../history.js';
import { messagesModel, type MessagesInput, type MessagesOutput, type MessagesRead } from '../messages-model.js';
import { ask, complaints, expected, type Scene, type Workload } from '../workload.js';

const WAIT_MS = 300;

interface Page {
  messages: { number: number; body: string }[];
  cursor: number;
  missed: boolean;
}

export const messages: Workload<MessagesInput, MessagesOutput> = {
  kind: 'messages',

  start(history, scene, client) {
    const { replica, random, object } = scene;
    /** Where this client is in each group. */
    const cursors = new Map<string, number>();
    return Promise.resolve(async () => {
      const name = object();
      const path = `/v1/groups/${name}/messages`;
      if (random() < 0.5) {
        const body = randomUUID().slice(0, 8);
        await history.record(name, client, { do: 'post', body }, () => post(scene, path, body));
        return;
      }
      const cursor = random() < 0.1 ? 0 : cursors.get(name);
      const input: MessagesInput = cursor === undefined ? { do: 'begin' } : { do: 'read', after: cursor };
      const wait = random() < 0.3 ? `waitMs=${WAIT_MS}` : '';
      const told = await history.record(name, client, input, async () => {
        const query = cursor === undefined ? '' : `after=${cursor}&${wait}`;
        const reply = await ask(replica(), 'GET', `${path}?${query}`);
        if (reply === undefined) return undefined;
        const page = expected(reply, [200]).body as Page;
        return cursor === undefined ? { cursor: page.cursor } : readOf(page);
      });
      if (told !== undefined && 'cursor' in told) cursors.set(name, told.cursor);
    });
  },

  check: (operations) => complaints(messagesModel, operations),
};

/** Asks again, elsewhere, when it was not told what came of it, if it has given it an id. */
async function post({ replica, random }: Scene, path: string, body: string): Promise<MessagesOutput | undefined> {
  const hasId = random() < 0.5;
  const request = { body: { body, ...(hasId && { requestId: body }) } };
  const first = await ask(replica(), 'POST', path, request);
  const reply = first ?? (hasId ? await ask(replica(), 'POST', path, request).catch(notTold) : undefined);
  return reply && { number: (expected(reply, [200, 201]).body as { number: number }).number };
}

/** That the second was not done says nothing of the first. */
function notTold(error: unknown): Reply | undefined {
  if (error instanceof NotApplied) return undefined;
  throw error;
}

function readOf({ messages, cursor, missed }: Page): MessagesRead {
  return { read: messages.map(({ number, body }) => [number, body]), cursor, missed };
}
