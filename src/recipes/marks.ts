/**
 * Marks of a znode's last writes, kept in its own data, so that a write whose answer was lost can be found again, by
 * the replica that sent it or by a repeated request at any other (C32). A mark is written by the transaction that it
 * describes, so it exists exactly if that was done.
 *
 * Bounded: each write drops the oldest mark. A repetition is recognised until `MARKS_MAX` later writes of the same
 * znode.
 */
import { createHash } from 'node:crypto';
import { randomId } from '../random.js';
import { BrokenRulesError } from '../errors.js';

/** About 30 bytes each. More than the retries of a client last, where many write to one znode. */
export const MARKS_MAX = 32;

/** Identifies a request. */
export interface Attempt {
  id: string;
  /** Of what it wants: two requests of one id and two fingerprints are two requests, of which the second is refused. */
  fingerprint: string;
}

/** Has none where nothing but the id counts. */
type Fingerprinted = { readonly fingerprint?: string | undefined };

export interface Mark extends Attempt {
  /** Of the znode's data, that this write made. */
  version: number;
  /** What the caller was told; the recipe knows what it means. */
  outcome: number;
}

const ID_LENGTH = 16;
const FINGERPRINT_LENGTH = 6;
const NO_FINGERPRINT = '-';

/** For a request that nobody will repeat: only this replica looks for it. */
export function newAttempt(): Attempt {
  return { id: randomId(12, 'base64url'), fingerprint: NO_FINGERPRINT };
}

/** @param who whose request it is: principal, namespace, recipe; @param what all that it wants */
export function attemptOf(
  who: readonly string[],
  requestId: string,
  what: readonly (string | number | boolean | null | Uint8Array)[],
): Attempt {
  const id = createHash('sha256').update(JSON.stringify([...who, requestId]));
  const fingerprint = createHash('sha256');
  for (const part of what) {
    const bytes = part instanceof Uint8Array ? part : Buffer.from(JSON.stringify(part));
    fingerprint.update(`${bytes.length}:`).update(bytes);
  }
  return {
    id: id.digest('base64url').slice(0, ID_LENGTH),
    fingerprint: fingerprint.digest('base64url').slice(0, FINGERPRINT_LENGTH),
  };
}

/** The mark of this attempt. @throws PosternError `invalid` when its id stands for another request */
export function findMark(marks: readonly Mark[], attempt: Attempt): Mark | undefined {
  const mark = marks.find(({ id }) => id === attempt.id);
  if (mark !== undefined) checkSame(mark, attempt);
  return mark;
}

/** @throws PosternError `invalid` when the two want different things */
export function checkSame(earlier: Fingerprinted, attempt: Fingerprinted): void {
  if (earlier.fingerprint === attempt.fingerprint) return;
  const detail =
    'The Idempotency-Key (or requestId) stands for another request already; a new request needs a new one.';
  throw new BrokenRulesError('header', [{ field: 'Idempotency-Key', detail }]);
}

/** With this mark, and without the oldest ones that are too many. */
export function withMark(marks: readonly Mark[], mark: Mark): Mark[] {
  return [...marks.slice(Math.max(0, marks.length + 1 - MARKS_MAX)), mark];
}

/** As it stands in the data of a znode. */
export function encodeMarks(marks: readonly Mark[]): string[] {
  return marks.map(({ id, fingerprint, version, outcome }) => `${id} ${fingerprint} ${version} ${outcome}`);
}

export function decodeMarks(texts: unknown): Mark[] {
  if (!Array.isArray(texts)) return [];
  return (texts as unknown[]).flatMap((text) => {
    const [id, fingerprint, version, outcome] = String(text).split(' ');
    if (id === undefined || fingerprint === undefined || version === undefined || outcome === undefined) return [];
    return [{ id, fingerprint, version: Number(version), outcome: Number(outcome) }];
  });
}
