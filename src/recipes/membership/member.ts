/**
 * A member of a group or of a double barrier: one znode with the member's name.
 *
 *   data  {"leaseId", "principal", "label", "attempt", "value"}   of our own members; others, such as Curator's
 *                                                                 GroupMember, may have anything
 */
import { createHash } from 'node:crypto';
import { parseShown } from '../../json-text.js';
import type { Stat } from '../../zookeeper/operations.js';
import type { ReadNode } from '../../zookeeper/read-nodes.js';

export interface MemberRecord {
  leaseId: string;
  principal: string;
  label: string;
  /** Random per request: tells what this very request wrote. */
  attempt: string;
  value?: unknown;
  /** Of a member of a double barrier: how many it wants to enter with. */
  size?: number;
}

export interface MemberView {
  member: string;
  memberId: string;
  /** Empty for foreign clients. */
  leaseId: string;
  principal: string;
  label: string;
  /** Of a foreign member the text that it has there. */
  value: unknown;
  /** Of a member of a double barrier that is Postern's. */
  size: number | undefined;
  fencingToken: number;
  /** Epoch ms on the ensemble's clock. */
  since: number;
  /** Not made by Postern. */
  external: boolean;
}

const FOREIGN_VALUE_MAX = 4_096;

export function encodeMember(record: MemberRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

/** @returns undefined for the data of a foreign client */
export function decodeMember(data: Buffer): MemberRecord | undefined {
  if (data[0] !== 0x7b) return undefined;
  try {
    const record = parseShown(data.toString('utf8'), 'value') as MemberRecord;
    const texts = [record.leaseId, record.principal, record.label, record.attempt];
    return texts.every((text) => typeof text === 'string') ? record : undefined;
  } catch {
    return undefined;
  }
}

/** New for every membership. Public, and no credential. */
export function memberIdOf({ czxid }: Stat): string {
  return `m${czxid.toString(36)}`;
}

/** What everybody may see. Never a session id, nor anything from which one follows. */
export function describeMember(member: string, { data, stat }: ReadNode): MemberView {
  const record = decodeMember(data);
  return {
    member,
    memberId: memberIdOf(stat),
    leaseId: record?.leaseId ?? '',
    principal: record?.principal ?? '',
    label: record?.label ?? '',
    value: record === undefined ? data.toString('utf8', 0, FOREIGN_VALUE_MAX) : (record.value ?? null),
    size: record?.size,
    fencingToken: stat.czxid,
    since: stat.ctime,
    external: record === undefined,
  };
}

/** The incarnation of a member and of its value, from facts that every replica sees alike. */
export type MemberStamp = readonly [member: string, czxid: number, version: number];

/** Names the members and their values: changes whenever one comes, goes or writes. */
export function etagOfMembers(stamps: readonly MemberStamp[]): string {
  return `"${digest(stamps)}"`;
}

/** Names the set of members alone, whatever their values. */
export function digestOfNames(names: readonly string[]): string {
  return digest(names);
}

function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 22);
}

/** Names of members in the order in which they are shown, listed and numbered. */
export function sortNames(names: readonly string[]): string[] {
  return [...names].sort();
}
