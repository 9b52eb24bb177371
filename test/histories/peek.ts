/** All that is in a queue now, page by page. */
import type { Client } from '../support/http/client.js';
import { ask, expected } from './workload.js';

export interface PeekedMessage {
  readonly body: unknown;
  readonly state: string;
  readonly enqueuedAt: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

/** @returns undefined when nobody answered @throws NotApplied */
export async function peek(replica: Client, queue: string): Promise<PeekedMessage[] | undefined> {
  const items: PeekedMessage[] = [];
  for (let token: string | undefined; ;) {
    const query = `?limit=1000${token === undefined ? '' : `&pageToken=${encodeURIComponent(token)}`}`;
    const reply = await ask(replica, 'GET', `/v1/queues/${queue}/messages${query}`);
    if (reply === undefined) return undefined;
    if (expected(reply, [200, 404]).status === 404) return items;
    const page = reply.body as { items: PeekedMessage[]; nextPageToken?: string };
    items.push(...page.items);
    if (page.nextPageToken === undefined) return items;
    token = page.nextPageToken;
  }
}
