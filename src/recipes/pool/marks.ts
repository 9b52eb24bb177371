/**
 * What is remembered of a member, in the names of nodes: so one listing tells it of all.
 *
 *   <member>~<owner>~<token>   made with a hold, and removed by whatever ends that on purpose, in the same
 *   transactions.
 *                              Without its hold it says that the hold was lost; once it has been written to (version
 *                              1), that this was found, and the member rests.
 *   <member>~<owner>           left behind by the release: to whom it is remembered
 *
 * `owner` is a hash of the name that the holder asked under, or empty if it did not ask for the same as before; then
 * nothing is left behind. `token` is the fencing token, so a mark never comes again for another hold. Of one member
 * there is at most one mark: whoever assigns it replaces the one that it has read.
 */
import { createHash } from 'node:crypto';

export interface Mark {
  readonly name: string;
  readonly member: string;
  /** As hashed; empty for nobody. */
  readonly owner: string;
  /** Of the hold that it was made with; undefined once that was released. */
  readonly token: number | undefined;
}

const SEPARATOR = '~';
/** In base64url: 72 bits. */
const OWNER_LENGTH = 12;

/** @param owner empty: nobody */
export function hashOwner(owner: string): string {
  return owner === '' ? '' : createHash('sha256').update(owner).digest('base64url').slice(0, OWNER_LENGTH);
}

/** @param owner as hashed */
export function markOf(member: string, owner: string, token: number): string {
  return [member, owner, token].join(SEPARATOR);
}

/** What a release leaves in place of the mark of the hold; undefined: nothing. */
export function memoryOf({ member, owner }: Pick<Mark, 'member' | 'owner'>): string | undefined {
  return owner === '' ? undefined : [member, owner].join(SEPARATOR);
}

/** @returns undefined for what is no mark */
export function parseMark(name: string): Mark | undefined {
  const [member, owner, token, ...more] = name.split(SEPARATOR);
  if (member === undefined || owner === undefined || more.length > 0) return undefined;
  return { name, member, owner, token: token === undefined ? undefined : Number(token) };
}
