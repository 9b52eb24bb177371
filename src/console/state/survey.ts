/**
 * A whole list of the API, page after page, for what the stream does not tell: who waits, leases, transactions. One
 * page at a time with a pause after each, so the load is bounded however long the list is.
 */
import { useRef } from 'preact/hooks';
import { requestJson } from '../api/request.js';
import { useFetched, type Fetched } from './fetched.js';
import { caller } from './session.js';

const PAGE = 1_000;
/** As many as a stream tells of. */
const ITEMS_MAX = 10_000;
const BETWEEN_PAGES_MS = 1_000;
const BETWEEN_ROUNDS_MS = 4_000;

interface Page<T> {
  readonly items: readonly T[];
  readonly nextPageToken?: string;
}

export interface Surveyed<T> {
  readonly items: readonly T[];
  /** False while pages are missing, and if there are more items than are read. */
  readonly isComplete: boolean;
}

interface Round<T> {
  readonly subject: string;
  items: T[];
  next: string | undefined;
  /** What the last round that was through has read. */
  whole: Surveyed<T> | undefined;
}

/** @param list of the API, such as `locks` */
export function useSurvey<T>(list: string): Fetched<Surveyed<T>> {
  const { namespace, key } = caller();
  const subject = `${list} ${namespace} ${key}`;
  const reading = useRef<Round<T>>(undefined);
  return useFetched<Surveyed<T>>(
    subject,
    async (signal) => {
      if (reading.current?.subject !== subject)
        reading.current = { subject, items: [], next: undefined, whole: undefined };
      const round = reading.current;
      try {
        return await readOn(round, list, signal);
      } catch (error) {
        round.next = undefined; // the place in the list may be what was refused
        throw error;
      }
    },
    () => (reading.current?.next === undefined ? BETWEEN_ROUNDS_MS : BETWEEN_PAGES_MS),
  );
}

async function readOn<T>(round: Round<T>, list: string, signal: AbortSignal): Promise<Surveyed<T>> {
  const query = { limit: PAGE, pageToken: round.next };
  const page = await requestJson<Page<T>>(caller(), { path: [list], query, signal });
  if (round.next === undefined) round.items = [];
  round.items.push(...page.items);
  const isFull = round.items.length >= ITEMS_MAX && page.nextPageToken !== undefined;
  round.next = isFull ? undefined : page.nextPageToken;
  const read = { items: [...round.items], isComplete: round.next === undefined && !isFull };
  if (round.next === undefined) round.whole = read;
  return round.whole ?? read;
}
