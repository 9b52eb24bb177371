/**
 * `postern config import`: reads what is there, decides which keys have another value, and writes those in batches.
 */
import { readFileSync } from 'node:fs';
import type { GivenFor } from '../arguments/command.js';
import type * as descriptions from '../commands/config.js';
import { EXIT, UsageError } from '../exit.js';
import { readInput, withClient } from './client.js';
import { changesOf, entryOf, objectIn, writeAll, type Entry } from './config-changes.js';

export async function importKeys(given: GivenFor<typeof descriptions.importKeys>): Promise<number> {
  const { 'dry-run': isDry, guard } = given.values;
  const [file] = given.arguments;
  const entries = entriesOf(file === undefined ? readInput().toString() : textOf(file));
  const tell = (action: string, key: string): void =>
    given.output.result({ action, key, ...(isDry && { dryRun: true }) }, () =>
      isDry ? `would ${action} ${key}` : `${action} ${key}`,
    );
  return withClient(given, async (postern) => {
    const changes = await changesOf(postern, entries);
    const same = entries.length - changes.length;
    let written = 0;
    try {
      if (isDry) for (const { action, operation } of changes) tell(action, operation.put);
      else
        for await (const part of writeAll(postern, changes, guard)) {
          for (const { action, operation } of part) tell(action, operation.put);
          written += part.length;
        }
    } catch (error) {
      given.output.tell('stopped', `${written} of ${changes.length} keys were written`, {
        written,
        of: changes.length,
      });
      throw error;
    }
    given.output.tell('imported', `${isDry ? 0 : written} keys were written, ${same} were so already`, {
      written: isDry ? 0 : written,
      same,
    });
    return EXIT.ok;
  });
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`FILE "${file}" cannot be read: ${(error as Error).message}`);
  }
}

/** @throws UsageError with the number of the line */
function entriesOf(text: string): Entry[] {
  const lineOfKey = new Map<string, number>();
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    const parsed = objectIn(line);
    const entry = typeof parsed === 'string' ? parsed : entryOf(parsed);
    if (typeof entry === 'string') throw new UsageError(`line ${index + 1} ${entry}`);
    const before = lineOfKey.get(entry.key);
    if (before !== undefined)
      throw new UsageError(`line ${index + 1} has the key "${entry.key}" of line ${before} again`);
    lineOfKey.set(entry.key, index + 1);
    return [entry];
  });
}
