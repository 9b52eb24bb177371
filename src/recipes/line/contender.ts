/**
 * A contender: one znode in a line, waiting or holding.
 *
 *   name  _c_<guid>-lock-<sequence>          as Curator's InterProcessMutex and go-zookeeper make it
 *         _c_<guid>-__READ__<sequence>       as Curator's InterProcessReadWriteLock, and __WRIT__
 *         _c_<guid>-latch-<sequence>         as Curator's LeaderLatch; directly behind it its tail
 *                                            (`candidate-tail.ts`)
 *         _c_<guid>-permit<count>-<sequence> of a semaphore: how many permits it wants, so that a listing is enough to
 *         decide
 *         _c_<guid>-prio<priority>-<sequence> in the room of a lock by priority (`lock/priority.ts`)
 *   data  JSON, below                        of our own contenders; others may have anything
 *         an id, a line break, and the JSON    of candidates: LeaderLatch reads the data as the participant's id
 *
 * What the state means:
 *
 *   created `granted` ──is first──▶ held                     (the uncontended path: one write)
 *   created `granted` ──is not first──▶ `waiting`            (version-checked, before anybody waits)
 *   created `waiting` ──everything before it is gone──▶ `granted`   (version-checked: the grant)
 *
 * So `granted` counts only for contenders that the line admits (`rule.ts`: for a lock the head), and an admitted one
 * that says `waiting` holds nothing yet: its grant is in flight, or it was abandoned.
 *
 * Every write raises the znode's version, and carries the `attempt`, random per HTTP request, that wrote it. An attempt
 * that gives a place up or back deletes at the version that it wrote itself; if another attempt has taken the place
 * over, that fails, and must fail (protocol C1).
 */
import { jsonOf, parseShown } from '../../json-text.js';
import type { Kind } from '../../metrics/metrics.js';
import { randomId } from '../../random.js';
import type { Stat } from '../../zookeeper/operations.js';
import { formatSequence, LAST_SEQUENCE, parseSequence } from '../../zookeeper/paths.js';
import { inLineOrder } from '../line-page.js';
import { PRIORITY_MAX, ranked } from './room/rank.js';

/** How a contender holds: beside nobody, beside those who read, or beside as many as there are permits for. */
export type Mode = 'exclusive' | 'read' | 'write' | 'shared';

const NAME_START = '_c_';
/** The part of a name between guid and sequence. A holdId carries its index in this list. */
const PREFIXES = ['lock-', '__READ__', '__WRIT__', 'latch-'] as const;
/** Semaphores only: the number of permits. */
type PermitPrefix = `permit${number}-`;
/** In rooms only: the priority. */
type PriorityPrefix = `prio${number}-`;
export type NodePrefix = (typeof PREFIXES)[number] | PermitPrefix | PriorityPrefix;

/**
 * A znode in line. Of foreign clients only the name is known: unless it says that it reads, it is taken to exclude all
 * others.
 */
export interface Contender {
  name: string;
  /** Where it stands: its number; in a room its rank (`room/rank.ts`). */
  sequence: number;
  /** Shares with others who read. */
  reads: boolean;
  /** Semaphores: how many permits it wants. Elsewhere, and if the name does not say, one. */
  permits?: number | undefined;
  /** In a room. */
  priority?: number;
}

export type ContenderState = 'waiting' | 'granted';

export interface ContenderRecord {
  state: ContenderState;
  attempt: string;
  leaseId: string;
  principal: string;
  label: string;
  requestId: string;
  /** The value that the caller shows to others, as an answer shows it (`json-text.ts`). */
  data?: unknown;
  /**
   * Epoch ms on the ensemble's clock: until when the request waits. A head that still waits 5 s later may be removed.
   */
  waitUntil?: number | undefined;
  /** Epoch ms on the ensemble's clock. */
  grantedAt?: number | undefined;
  /**
   * For so long after an involuntary loss of the hold nobody is granted what it excluded; a hold that has it has a mark
   * (`lock-delay.ts`).
   */
  delayMs?: number | undefined;
  /** Of candidates of elections. */
  candidate?: CandidateRecord | undefined;
  /** Of writers: a reader's place was made directly behind this one (`downgrade.ts`). */
  downgradable?: true | undefined;
  /** One-call acquires: the sealed token, so that the repeated call finds it again. */
  leaseToken?: string | undefined;
  /** One-call acquires: the try that made the lease gave up, and is about to end it. Nobody takes this place over. */
  ending?: true | undefined;
  /** Of a place that does not end with its lease's session (`reservation/`). */
  reservation?: ReservedPlace | undefined;
}

/** What a candidate's place says of it, beside what all places say. */
export interface CandidateRecord {
  /** Whether the leader has said that it has taken over. */
  acknowledged: boolean;
  /** How much it is preferred (`election/preference.ts`); missing: not at all. */
  preference?: number | undefined;
  /** How often it has made way for one that is preferred more, as far as its own campaigns know; missing: never. */
  passed?: number | undefined;
}

/** What a reservation's place says of it. */
export interface ReservedPlace {
  /** Of its own node (`Layout.reservation`). */
  id: string;
  /** For whom it is, in the caller's words. */
  owner: string;
  reason?: string | undefined;
  /** Epoch ms on the ensemble's clock. Missing while it is only wanted: then it goes with its lease. */
  until?: number | undefined;
}

/**
 * The record in another state. Member by member, so that all records have one shape: a copy by `...` of what was itself
 * put together so is made and read by V8's slow ways.
 */
export function withState(
  record: ContenderRecord,
  state: ContenderState,
  { waitUntil, grantedAt }: Pick<ContenderRecord, 'waitUntil' | 'grantedAt'>,
): ContenderRecord {
  return {
    state,
    attempt: record.attempt,
    leaseId: record.leaseId,
    principal: record.principal,
    label: record.label,
    requestId: record.requestId,
    data: record.data,
    delayMs: record.delayMs,
    candidate: record.candidate,
    downgradable: record.downgradable,
    leaseToken: record.leaseToken,
    waitUntil,
    grantedAt,
    ending: record.ending,
    reservation: record.reservation,
  };
}

export function newAttempt(): string {
  return randomId(8, 'base64url');
}

/** Which kind of node a contender of this kind and mode is. */
export function prefixOf(kind: Kind, mode: Mode, count = 1): NodePrefix {
  if (kind === 'semaphore') return `permit${count}-`;
  if (kind === 'election') return 'latch-';
  if (mode === 'read') return '__READ__';
  return mode === 'write' ? '__WRIT__' : 'lock-';
}

/** In which mode a contender holds or waits, as far as its name tells. */
export function modeOf({ name, reads, permits }: Contender): Mode {
  if (permits !== undefined) return 'shared';
  if (reads) return 'read';
  return name.includes('__WRIT__') ? 'write' : 'exclusive';
}

export function nodePrefix(guid: string, prefix: NodePrefix): string {
  return `${NAME_START}${guid}-${prefix}`;
}

/** Of ours and Curator's, or kazoo's. */
const READS = /__(?:READ__|rlock__)\d{10}$/;
const PERMITS = /-permit(\d{1,5})-\d{10}$/;
const PRIORITY = /-prio(\d{1,2})-\d{10}$/;

/** In the name of a candidate's tail, which is no contender. */
const TAIL = '-tail-latch-';

export function tailPrefix(guid: string): string {
  return `${NAME_START}${guid}${TAIL}`;
}

/** The tail of one of our own candidates: it was given the next number. @returns undefined for any other name */
export function tailNameOf(name: string): string | undefined {
  const [, guid, prefix] = OWN_NAME.exec(name) ?? [];
  const sequence = parseSequence(name);
  if (guid === undefined || prefix !== 'latch-' || sequence === undefined || !isOwnName(name)) return undefined;
  return tailPrefix(guid) + formatSequence(Math.min(sequence + 1, LAST_SEQUENCE));
}

/** The reader's place of a writer that may downgrade: it was given the next number. @returns undefined for others */
export function downgradedNameOf(name: string): string | undefined {
  const [, guid, prefix] = OWN_NAME.exec(name) ?? [];
  const sequence = parseSequence(name);
  if (guid === undefined || prefix !== '__WRIT__' || sequence === undefined || !isOwnName(name)) return undefined;
  return nodePrefix(guid, '__READ__') + formatSequence(Math.min(sequence + 1, LAST_SEQUENCE));
}

/** Whether the record is of such a place, which stands for nothing while its writer has not downgraded. */
export function isPrepared({ state, waitUntil }: Pick<ContenderRecord, 'state' | 'waitUntil'>): boolean {
  return state === 'waiting' && waitUntil === 0;
}

/** Where the sequence number begins in the names that nearly all lines are of: `_c_<guid>-lock-<ten digits>`. */
const LOCK_SEQUENCE_AT = NAME_START.length + 36 + '-lock-'.length;

/** The contender that a node's name speaks of; undefined for a name without a sequence number. */
export function parseContender(name: string): Contender | undefined {
  const sequence = parseSequence(name);
  if (sequence === undefined) return undefined;
  if (name.length === LOCK_SEQUENCE_AT + 10 && name.startsWith('-lock-', LOCK_SEQUENCE_AT - 6))
    return { name, sequence, reads: false, permits: undefined };
  if (name.includes(TAIL)) return undefined;
  const priority = PRIORITY.exec(name)?.[1];
  if (priority !== undefined) return { name, reads: false, ...ranked(sequence, Number(priority)) };
  const permits = PERMITS.exec(name)?.[1];
  return { name, sequence, reads: READS.test(name), permits: permits === undefined ? undefined : Number(permits) };
}

/** The number that its directory gave it, which in a room is not where it stands. */
export function numberOf({ name }: Contender): number {
  return parseSequence(name) ?? 0;
}

/** In the order in which they were made, which is not that of a room. */
export function byNumber(a: Contender, b: Contender): number {
  return numberOf(a) - numberOf(b);
}

/**
 * Those of a directory's children that stand in line, first come first. Anything without a sequence number does not.
 */
export function sortLine(children: readonly string[]): Contender[] {
  const line: Contender[] = [];
  for (const name of children) {
    const contender = parseContender(name);
    if (contender !== undefined) line.push(contender);
  }
  return line.sort(inLineOrder);
}

/**
 * As `sortLine`, as everybody may see it: who repeats a request has a second node for a moment, which stands for
 * nothing.
 */
export function shownLine(children: readonly string[]): Contender[] {
  const shown = new Set<string>();
  return sortLine(children).filter(({ name }) => {
    const guid = ownGuidOf(name);
    if (guid === undefined) return true;
    if (shown.has(guid)) return false;
    shown.add(guid);
    return true;
  });
}

const OWN_NAME =
  /^_c_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-(lock-|__READ__|__WRIT__|latch-|permit\d{1,5}-|prio\d{1,2}-)\d{10}$/;

/** Whether the name is that of a node under this guid. */
export function isNamed(name: string, guid: string): boolean {
  return name.startsWith(guid, NAME_START.length) && name.startsWith(NAME_START);
}

export function guidOf(name: string): string | undefined {
  return OWN_NAME.exec(name)?.[1];
}

/** Made by Postern, whatever its data say by now. */
export function isOwnName(name: string): boolean {
  return ownGuidOf(name) !== undefined;
}

/** Our guids are UUIDs of version 8, Curator's are random ones (version 4). */
function ownGuidOf(name: string): string | undefined {
  const guid = guidOf(name);
  return guid?.charAt(14) === '8' ? guid : undefined;
}

/** Curator's Revoker writes this over the data of a holder that it asks to release. */
export const REVOKE_MESSAGE = Buffer.from('__REVOKE__');

export function encodeRecord(record: ContenderRecord): Buffer {
  const json = jsonOf(record);
  return Buffer.from(record.candidate === undefined ? json : `${latchId(record)}\n${json}`);
}

/**
 * What other clients of an election see as this candidate's id: its value, else its label, else its lease. Always one
 * line.
 */
export function latchId({ data, label, leaseId }: ContenderRecord): string {
  const id = data ?? (label === '' ? leaseId : label);
  return typeof id === 'string' && id !== '' && !/[\r\n]/.test(id) ? id : jsonOf(id);
}

/** @returns undefined for the data of a foreign client */
export function decodeRecord(data: Buffer): ContenderRecord | undefined {
  const start = data.lastIndexOf(0x0a) + 1; // JSON has no line break in it
  if (data[start] !== 0x7b) return undefined;
  try {
    const record = parseShown(data.toString('utf8', start), 'data') as ContenderRecord;
    const ours =
      (record.state === 'waiting' || record.state === 'granted') &&
      typeof record.leaseId === 'string' &&
      typeof record.attempt === 'string';
    return ours ? record : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The public name of one hold: which node, and which incarnation of it. New for every grant, so that a late
 * release never meets a later hold (protocol C7). It is no credential: a release needs the lease token too (C8).
 */
export interface Hold {
  prefix: NodePrefix;
  guid: string;
  sequence: number;
  czxid: number;
}

const HOLD_BYTES = 1 + 16 + 4 + 8;
/** In place of a prefix's number; the number of permits, or the priority, follows at the end, in two bytes. */
const PERMITS_CODE = 0x70;
const PRIORITY_CODE = 0x71;
const COUNT_BYTES = 2;

export function encodeHoldId({ prefix, guid, sequence, czxid }: Hold): string {
  const count = prefix.startsWith('p') ? COUNTED.exec(prefix)?.[2] : undefined;
  const bytes = Buffer.allocUnsafe(HOLD_BYTES + (count === undefined ? 0 : COUNT_BYTES)); // every byte is written
  bytes.writeUInt8(codeOf(prefix), 0);
  if (count !== undefined) bytes.writeUInt16BE(Number(count), HOLD_BYTES);
  bytes.write(guid.replaceAll('-', ''), 1, 'hex');
  bytes.writeInt32BE(sequence, 17);
  bytes.writeBigInt64BE(BigInt(czxid), 21);
  return bytes.toString('base64url');
}

export function decodeHoldId(holdId: string): Hold | undefined {
  const bytes = Buffer.from(holdId, 'base64url');
  if (bytes.length < HOLD_BYTES || bytes.toString('base64url') !== holdId) return undefined;
  const code = bytes.readUInt8(0);
  const isCounted = code === PERMITS_CODE || code === PRIORITY_CODE;
  if (bytes.length !== HOLD_BYTES + (isCounted ? COUNT_BYTES : 0)) return undefined;
  const prefix = isCounted ? countedPrefix(code, bytes.readUInt16BE(HOLD_BYTES)) : PREFIXES[code];
  const hex = bytes.toString('hex', 1, 17);
  const czxid = bytes.readBigInt64BE(21);
  const sequence = bytes.readInt32BE(17);
  if (prefix === undefined || sequence < 0 || czxid < 0n || czxid > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  return {
    prefix,
    guid: `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`,
    sequence,
    czxid: Number(czxid),
  };
}

const COUNTED = /^(permit|prio)(\d{1,5})-$/;

function codeOf(prefix: NodePrefix): number {
  if (prefix.startsWith('permit')) return PERMITS_CODE;
  return prefix.startsWith('prio') ? PRIORITY_CODE : (PREFIXES as readonly string[]).indexOf(prefix);
}

function countedPrefix(code: number, count: number): NodePrefix | undefined {
  if (code === PERMITS_CODE) return `permit${count}-`;
  return count <= PRIORITY_MAX ? `prio${count}-` : undefined;
}

export function holdNodeName({ prefix, guid, sequence }: Hold): string {
  return nodePrefix(guid, prefix) + formatSequence(sequence);
}

/** As its name is parsed. */
export function contenderOf(hold: Hold): Contender {
  return parseContender(holdNodeName(hold)) as Contender;
}

/** Whether it is the name of a place in a room. */
export function isInRoom({ prefix }: Hold): boolean {
  return prefix.startsWith('prio');
}

/** The holdId of one of our own nodes, undefined for any other name. */
export function ownHoldId(name: string, czxid: number): string | undefined {
  const [, guid, prefix] = OWN_NAME.exec(name) ?? [];
  const sequence = parseSequence(name);
  if (guid === undefined || sequence === undefined) return undefined;
  return encodeHoldId({ prefix: prefix as NodePrefix, guid, sequence, czxid });
}

/**
 * The holdId to show for any node in line; foreign nodes have none that could be released, but a stable name all the
 * same.
 */
export function holdIdOf(contender: Contender, stat: Stat): string {
  return ownHoldId(contender.name, stat.czxid) ?? `x${stat.czxid.toString(36)}`;
}
