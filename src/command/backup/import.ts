/**
 * `postern import`: reads a backup once to see that it is whole, and then writes record by record what is missing.
 * `restore.ts` has what is done for each kind.
 *
 * It keeps nothing of its own about how far it has come. Each record is compared with what is there, and messages
 * are recognised by their ids (protocol C97): run again, it passes over what it has done.
 */
import { openSync, statSync } from 'node:fs';
import type { GivenFor } from '../arguments/command.js';
import type { importAll as description, KINDS } from '../commands/backup.js';
import { environment } from '../environment.js';
import { EXIT, UsageError } from '../exit.js';
import { inputChunks, withClient } from '../plain/client.js';
import { kindsOf } from './export.js';
import { BackupReader, type RecordKind } from './format.js';
import { Restorer, type Tally } from './restore.js';

const KIND_OF: Readonly<Record<RecordKind, (typeof KINDS)[number]>> = {
  config: 'config',
  counter: 'counters',
  pool: 'pools',
  queue: 'queues',
  message: 'queues',
  schedule: 'schedules',
};

export async function importAll(given: GivenFor<typeof description>): Promise<number> {
  const { kinds: named, overwrite, 'dry-run': isDry } = given.values;
  const kinds = kindsOf(named);
  const [file] = given.arguments;
  if (file !== undefined) check(file);
  const backup = new BackupReader(chunksOf(file));
  const namespace = given.values.namespace ?? (environment['POSTERN_NAMESPACE'] ? undefined : backup.namespace);
  return withClient({ values: { ...given.values, namespace } }, async (postern) => {
    const restorer = new Restorer(postern, { overwrite, isDry }, given.output);
    let line = 1;
    try {
      for (const record of backup.records()) {
        line = record.line;
        if (kinds.includes(KIND_OF[record.kind])) await restorer.take(record);
      }
      await restorer.finish();
    } catch (error) {
      const sentence = `stopped at line ${line} or just before it; until then: ${said(restorer.tally)}. Run it again to go on`;
      given.output.tell('stopped', sentence, { line, ...restorer.tally });
      throw error;
    }
    const { tally, unsure } = restorer;
    given.output.result(
      { event: 'imported', dryRun: isDry, ...tally, ...(isDry && { unsure }) },
      () => `${isDry ? 'nothing was written; it would be' : 'imported'}: ${said(tally)}${saidUnsure(unsure)}`,
    );
    return EXIT.ok;
  });
}

function said({ created, replaced, same, kept }: Tally): string {
  return `${created} created, ${replaced} replaced, ${same} were there already, ${kept} differ and were kept`;
}

function saidUnsure(count: number): string {
  if (count === 0) return '';
  const why = 'come only if no import has brought them back within a day, which cannot be seen without writing';
  return `; ${count} of these are messages that ${why}`;
}

/** Reads all of it. @throws UsageError unless it is whole */
function check(file: string): void {
  const records = new BackupReader(chunksOf(file)).records();
  while (records.next().done !== true);
}

function chunksOf(file: string | undefined): Iterable<Buffer> {
  if (file === undefined) return inputChunks();
  const cannotBeRead = (why: string): UsageError => new UsageError(`FILE "${file}" cannot be read: ${why}`);
  try {
    // A pipe gives what it has once; and to open one may never end.
    if (statSync(file).isFile()) return inputChunks(openSync(file, 'r'));
  } catch (error) {
    throw cannotBeRead((error as Error).message);
  }
  throw cannotBeRead('it must be a regular file, because it is read twice; leave it out to read standard input');
}
