/**
 * Pages of those who stand in a line. A page begins behind the place where the last one stood that the page before came
 * to, so it leaves out nobody if others leave the line meanwhile, and shows nobody again.
 *
 * Behind a line are those in the room of a lock by priority. Who goes from the room into the line is about to hold.
 */
import type { Page } from '../page.js';

/** Where somebody stands. */
interface Standing {
  name: string;
  sequence: number;
  reads: boolean;
  /** In a room only. */
  priority?: number | undefined;
}

export type LinePage = Pick<Page, 'limit' | 'after'>;

/**
 * The same for everybody: servers list children in orders of their own, and a directory that is worn gives one number
 * to many. Curator gives a writer that reads as well a second node with the same one: it comes after the writer.
 */
export function inLineOrder(a: Standing, b: Standing): number {
  return a.sequence - b.sequence || Number(a.reads) - Number(b.reads) || byName(a, b);
}

function byName(a: Standing, b: Standing): number {
  if (a.name === b.name) return 0;
  return a.name < b.name ? -1 : 1;
}

/** Of a name; ours are shorter. */
const NAME_LENGTH = 200;
/** A place, as page tokens encode it: whether it is in the room, the sequence, whether it reads, the name. */
export const PLACE_KEY = new RegExp(`^([01])-(\\d{1,10}(?:\\.\\d{1,17})?)-([01])-([^/]{1,${NAME_LENGTH}})$`);

/**
 * @param line in order, the room behind it
 * @param read `end`: so many of those wanted the page has come to
 */
export async function readLinePage<S extends Standing, T>(
  line: readonly S[],
  { after, limit }: LinePage,
  read: (wanted: readonly S[]) => Promise<{ items: T[]; end: number }>,
): Promise<{ items: T[]; next: string | undefined }> {
  const rest = after === undefined ? line : behind(line, after);
  const wanted = rest.slice(0, limit);
  const { items, end } = await read(wanted);
  const last = wanted[end - 1];
  return { items, next: last === undefined || last === line.at(-1) ? undefined : keyOf(last) };
}

function behind<S extends Standing>(line: readonly S[], key: string): readonly S[] {
  const [, room, sequence, reads, name = ''] = PLACE_KEY.exec(key) ?? [];
  const last = { name, sequence: Number(sequence), reads: reads === '1' };
  const inRoom = room === '1';
  return line.filter((one) => (isInRoom(one) === inRoom ? inLineOrder(one, last) > 0 : isInRoom(one)));
}

function keyOf(one: Standing): string {
  const name = one.name.slice(0, NAME_LENGTH);
  return `${Number(isInRoom(one))}-${one.sequence}-${Number(one.reads)}-${name}`;
}

function isInRoom({ priority }: Standing): boolean {
  return priority !== undefined;
}
