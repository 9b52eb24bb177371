/**
 * Records that another release may have written: a field or a value that this one does not know is a rule that it would
 * not heed, and would drop when it writes the record again. So the record is not used: requests are told, and what a
 * replica does of its own accord leaves it alone (protocol C47).
 */
import { PosternError } from '../errors.js';

/** All fields of a record; of a field with few values those, of any other `true`. */
export type KnownFields<T> = { readonly [K in keyof T]-?: true | readonly NonNullable<T[K]>[] };

/** A newer release has written it. Retryable: a replica of that release may be asked next. */
export class NewerRecordError extends PosternError {
  constructor(what: string, unknown: string) {
    super(
      'zookeeper-unavailable',
      `Another release has written ${what}: this one does not know its ${unknown}. Nothing was done. Ask a replica of the release that wrote it.`,
    );
    this.name = 'NewerRecordError';
  }
}

/** Of what is shown of a value. */
const SHOWN_CHARACTERS = 20;

/**
 * @param what is described: `the queue "jobs"`
 * @throws NewerRecordError if it has what this release does not know
 */
export function expectKnown<T extends object>(what: string, record: T, known: KnownFields<T>): T {
  for (const [field, value] of Object.entries(record) as [keyof T & string, unknown][]) {
    const values = Object.hasOwn(known, field) ? known[field] : undefined;
    if (values === undefined) throw new NewerRecordError(what, `field ${shown(field)}`);
    if (values !== true && !(values as readonly unknown[]).includes(value))
      throw new NewerRecordError(what, `${field} ${shown(value)}`);
  }
  return record;
}

/** For what a replica does of its own accord. @returns undefined for what a newer release has written */
export function ifKnown<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    return unlessNewer(error);
  }
}

/** As `ifKnown`, of a promise: `await reading.catch(unlessNewer)`. */
export function unlessNewer(error: unknown): undefined {
  if (!(error instanceof NewerRecordError)) throw error;
  return undefined;
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').slice(0, SHOWN_CHARACTERS + 2);
}
