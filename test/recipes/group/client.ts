/** What tests of groups say to a replica. */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';
import type { Replica } from '../../support/start-gateway.js';

export interface ShownMember {
  member: string;
  memberId: string;
  leaseId: string | null;
  value: unknown;
  fencingToken: number;
  external: boolean;
}

export interface ShownGroup {
  members: ShownMember[];
  memberCount: number;
}

export interface ShownShares {
  of: number;
  version: number;
  memberCount: number;
  shares: { member: string; parts: number[] }[];
}

export function leaseFor(replica: Client, body: Record<string, unknown> = {}): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000, ...body });
}

export function join(
  replica: Client,
  group: string,
  member: string,
  lease: { leaseToken: string },
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return replica.call('PUT', `/v1/groups/${group}/members/${member}`, { body, leaseToken: lease.leaseToken });
}

export function leave(replica: Client, group: string, member: string, lease: { leaseToken: string }): Promise<Reply> {
  return replica.call('DELETE', `/v1/groups/${group}/members/${member}`, { leaseToken: lease.leaseToken });
}

export function groupOf(replica: Client, group: string): Promise<ShownGroup> {
  return replica.expect(200, 'GET', `/v1/groups/${group}`) as Promise<ShownGroup>;
}

export async function namesIn(replica: Client, group: string): Promise<string[]> {
  return (await groupOf(replica, group)).members.map(({ member }) => member);
}

export function sharesOf(replica: Client, group: string, of: number): Promise<ShownShares> {
  return replica.expect(200, 'GET', `/v1/groups/${group}/shares?of=${of}`) as Promise<ShownShares>;
}

/** By part. */
export function ownersIn({ of, shares }: ShownShares): string[] {
  const owners = new Array<string>(of);
  for (const { member, parts } of shares) for (const part of parts) owners[part] = member;
  return owners;
}

/** Makes a member as a client other than Postern's does: Curator's GroupMember has its payload as data. */
export async function joinAsForeigner(
  replica: Replica,
  group: string,
  member: string,
  payload: string,
): Promise<{ path: string }> {
  const { control, layout } = replica.gateway.context;
  const directory = layout.group('default', group);
  await control.ensurePath(directory);
  return control.create(`${directory}/${member}`, Buffer.from(payload), { mode: 'ephemeral' });
}

export interface ShownMessage {
  number: number;
  by: string;
  at: string;
  body: unknown;
}

export interface MessagePage {
  messages: ShownMessage[];
  cursor: number;
  missed: boolean;
}

/** Posts, and fails the test when that is refused. @returns the number */
export async function post(replica: Client, group: string, body: unknown, requestId?: string): Promise<number> {
  const request = { body, ...(requestId !== undefined && { requestId }) };
  const reply = await replica.call('POST', `/v1/groups/${group}/messages`, { body: request });
  if (reply.status !== 201) throw new Error(`not posted: ${reply.status} ${JSON.stringify(reply.body)}`);
  return (reply.body as { number: number }).number;
}

/** @param query such as `after=7&waitMs=1000` */
export function messagesOf(replica: Client, group: string, query = ''): Promise<MessagePage> {
  return replica.expect(200, 'GET', `/v1/groups/${group}/messages?${query}`) as Promise<MessagePage>;
}

/** The cursor of somebody who begins now. */
export async function cursorOf(replica: Client, group: string): Promise<number> {
  return (await messagesOf(replica, group)).cursor;
}

export function bodiesOf({ messages }: Pick<MessagePage, 'messages'>): unknown[] {
  return messages.map(({ body }) => body);
}
