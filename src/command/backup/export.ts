/** `postern export`: reads what a namespace keeps, page by page, and prints it. Nothing is changed by it. */
import { PosternError, type Postern } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { KINDS, type exportAll as description } from '../commands/backup.js';
import { environment } from '../environment.js';
import { EXIT, UsageError } from '../exit.js';
import { listed, withClient } from '../plain/client.js';
import { configKeys } from '../plain/config.js';
import { BackupWriter, type Item, type RecordKind } from './format.js';

type Kind = (typeof KINDS)[number];
type Exported = readonly [RecordKind, Item];

export const PAGE = 1_000;

const EXPORTERS: Readonly<Record<Kind, (postern: Postern) => AsyncGenerator<Exported>>> = {
  async *config(postern) {
    for await (const key of configKeys(postern)) yield ['config', key];
  },
  async *counters(postern) {
    for await (const { name, value } of listed(postern, 'counters', { limit: PAGE }))
      yield ['counter', { name, value }];
  },
  async *pools(postern) {
    for await (const { name } of listed(postern, 'pools', { limit: PAGE })) {
      const shown = await ifThere(postern.request('GET /v1/pools/{name}', { path: { name } }));
      if (shown === undefined) continue;
      const { of, members, quarantineMs } = shown;
      yield ['pool', { name, of, members, quarantineMs }];
    }
  },
  async *queues(postern) {
    for await (const { name, paused, config } of listed(postern, 'queues', { limit: PAGE })) {
      yield ['queue', { name, paused, config }];
      for await (const message of messagesOf(postern, name)) yield ['message', message];
    }
  },
  async *schedules(postern) {
    for await (const { name } of listed(postern, 'schedules', { limit: PAGE })) {
      const shown = await ifThere(postern.request('GET /v1/schedules/{name}', { path: { name } }));
      if (shown === undefined) continue;
      const { cron, timeZone, to, misfire, paused } = shown;
      yield ['schedule', { name, cron, timeZone, to, misfire, paused }];
    }
  },
};

export async function exportAll(given: GivenFor<typeof description>): Promise<number> {
  const kinds = kindsOf(given.values.kinds);
  const namespace = given.values.namespace ?? (environment['POSTERN_NAMESPACE'] || undefined);
  return withClient(given, async (postern) => {
    const backup = new BackupWriter(given.output, namespace);
    for (const kind of kinds) for await (const [record, item] of EXPORTERS[kind](postern)) backup.write(record, item);
    backup.end();
    const { counts } = backup;
    const said = Object.entries(counts).map(([kind, count]) => `${kind} ${count}`);
    given.output.tell('exported', `exported: ${said.join(', ') || 'nothing, there is nothing'}`, { counts });
    // Most often a mistyped namespace: nothing must replace the last good backup.
    return said.length === 0 ? EXIT.refused : EXIT.ok;
  });
}

/** In their order. @throws UsageError */
export function kindsOf(given: readonly string[]): readonly Kind[] {
  const unknown = given.find((each) => !KINDS.some((kind) => kind === each));
  if (unknown !== undefined) throw new UsageError(`--kinds has "${unknown}"; each must be one of ${KINDS.join(', ')}`);
  return given.length === 0 ? KINDS : KINDS.filter((kind) => given.includes(kind));
}

/**
 * In the order of their delivery, and then those that are not due yet: twice, for what is given back with a delay, or
 * becomes due, while the first pass is on its way, and has moved to where that has been. Each id once.
 */
export async function* messagesOf(postern: Postern, queue: string): AsyncGenerator<Item & { id: string }> {
  const seen = new Set<string>();
  for (const _pass of [1, 2]) {
    for (let pageToken: string | undefined; ;) {
      const query = { limit: PAGE, ...(pageToken !== undefined && { pageToken }) };
      const page = await ifThere(postern.request('GET /v1/queues/{name}/messages', { path: { name: queue }, query }));
      for (const { state: _, claimedBy: __, claimedUntil: ___, ...message } of page?.items ?? []) {
        if (seen.has(message.id)) continue;
        seen.add(message.id);
        yield { queue, ...message };
      }
      pageToken = page?.nextPageToken;
      if (pageToken === undefined) break;
    }
  }
}

/** @returns what was answered; undefined for what is not there, or was deleted since it was listed */
export async function ifThere<T>(asked: Promise<{ body: T }>): Promise<NonNullable<T> | undefined> {
  try {
    return (await asked).body ?? undefined;
  } catch (error) {
    if (error instanceof PosternError && error.code === 'not-found') return undefined;
    throw error;
  }
}
