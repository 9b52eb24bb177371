/** What tests of queues say to a replica. */
import type { CallOptions, Client, LeaseHandle, Reply } from '../../support/http/client.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- bodies are any JSON */

export interface ShownMessage {
  id: string;
  body?: any;
  bodyBase64?: string;
  contentType?: string;
  priority: number;
  group?: string;
  attributes: Record<string, string>;
  enqueuedAt: string;
  expiresAt?: string;
  deliveries: number;
  deadLetter?: {
    queue: string;
    cause?: 'nack' | 'claim-ended' | 'expired';
    reason?: string;
    priority?: number;
    deliveries?: number;
    enqueuedAt?: string;
  };
}

export interface ClaimedMessage extends ShownMessage {
  claimId: string;
  claimedUntil?: string;
}

export interface PeekedMessage extends ShownMessage {
  state: 'available' | 'claimed' | 'delayed' | 'expired';
  claimedBy?: string;
  claimedUntil?: string;
  dueAt?: string;
}

export interface ShownQueue {
  name: string;
  depth: number;
  claimed: number;
  delayed: number;
  oldestEnqueuedAt: string | null;
  consumersWaiting: number;
  paused: boolean;
  config: Record<string, unknown>;
}

/** What became of one claim. */
export interface SettledClaim {
  claimId: string;
  status: number;
  gone?: boolean;
  claimedUntil?: string;
  code?: string;
}

export interface PushedItem {
  id: string;
  status: number;
}

type Message = Record<string, unknown>;
type Lease = Pick<LeaseHandle, 'leaseToken'>;

export function configure(replica: Client, queue: string, config: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('PUT', `/v1/queues/${queue}`, { body: { order: 'fifo', ...config } });
}

export function push(
  replica: Client,
  queue: string,
  messages: readonly Message[],
  options: CallOptions = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/queues/${queue}/messages`, { ...options, body: { messages } });
}

/** Pushes messages with these bodies, and fails the test when they are not all taken. */
export async function pushBodies(
  replica: Client,
  queue: string,
  bodies: readonly unknown[],
  more: Message = {},
): Promise<PushedItem[]> {
  const messages = bodies.map((body) => ({ body, ...more }));
  const { items } = (await replica.expect(201, 'POST', `/v1/queues/${queue}/messages`, { body: { messages } })) as {
    items: PushedItem[];
  };
  return items;
}

export function pushRaw(
  replica: Client,
  queue: string,
  bytes: Buffer | string,
  contentType: string,
  { query = '', headers = {} }: { query?: string; headers?: Record<string, string> } = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/queues/${queue}/messages/raw${query}`, {
    body: bytes,
    headers: { ...headers, 'content-type': contentType },
  });
}

/** Pops; an empty answer (204) is none. */
export async function pop(replica: Client, queue: string, body: Message = {}): Promise<ShownMessage[]> {
  const answer = (await replica.expect([200, 204], 'POST', `/v1/queues/${queue}/pop`, { body })) as
    { items: ShownMessage[] } | undefined;
  return answer?.items ?? [];
}

/** Claims; an empty answer (204) is none. */
export async function claim(
  replica: Client,
  queue: string,
  lease: Lease,
  body: Message = {},
): Promise<ClaimedMessage[]> {
  const answer = (await replica.expect([200, 204], 'POST', `/v1/queues/${queue}/claim`, {
    body,
    leaseToken: lease.leaseToken,
  })) as { items: ClaimedMessage[] } | undefined;
  return answer?.items ?? [];
}

export function bodiesOf(messages: readonly ShownMessage[]): unknown[] {
  return messages.map(({ body }) => body as unknown);
}

export type Settling = 'ack' | 'nack' | 'extend';

/**
 * Settles claims; one result per claim.
 * @param what with the members of the body, where it has any but the claims
 */
export async function settle(
  replica: Client,
  queue: string,
  what: Settling | (Message & { op: Settling }),
  lease: Lease,
  claims: readonly { claimId: string }[],
): Promise<SettledClaim[]> {
  const { op, ...body } = typeof what === 'string' ? { op: what } : what;
  const { items } = (await replica.expect(200, 'POST', `/v1/queues/${queue}/${op}`, {
    body: { claimIds: claims.map(({ claimId }) => claimId), ...body },
    leaseToken: lease.leaseToken,
  })) as { items: SettledClaim[] };
  return items;
}

/** Settles claims, and fails the test when one of them is lost. */
export async function settleAll(
  replica: Client,
  queue: string,
  what: Parameters<typeof settle>[2],
  lease: Lease,
  claims: readonly { claimId: string }[],
): Promise<void> {
  const settled = await settle(replica, queue, what, lease, claims);
  if (settled.every(({ status }) => status === 200)) return;
  throw new Error(`${JSON.stringify(what)} of ${queue}: ${JSON.stringify(settled)}`);
}

export function queueOf(replica: Client, queue: string): Promise<ShownQueue> {
  return replica.expect(200, 'GET', `/v1/queues/${queue}`) as Promise<ShownQueue>;
}

/** All of them, page by page. */
export async function peek(replica: Client, queue: string, limit = 1_000): Promise<PeekedMessage[]> {
  const items: PeekedMessage[] = [];
  for (let token: string | undefined; ;) {
    const query = `?limit=${limit}${token === undefined ? '' : `&pageToken=${token}`}`;
    const page = (await replica.expect(200, 'GET', `/v1/queues/${queue}/messages${query}`)) as {
      items: PeekedMessage[];
      nextPageToken?: string;
    };
    items.push(...page.items);
    if (page.nextPageToken === undefined) return items;
    token = page.nextPageToken;
  }
}
