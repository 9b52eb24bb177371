/** The body of a message, as it is typed. */
import { UsageError } from '../exit.js';

/** @throws UsageError for what is to be JSON and is not */
export function bodyOf(text: string, as: 'text' | 'json'): unknown {
  if (as === 'text') return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`the body is no JSON (${(error as Error).message}); --as text takes it as it stands`);
  }
}
