/**
 * What an import does for each record: creates what is missing, passes over what is so already, and replaces what
 * differs only if that was asked for. Records that stand together are written together.
 */
import { isDeepStrictEqual } from 'node:util';
import { type Postern, type Schemas } from '../../client/index.js';
import { UsageError } from '../exit.js';
import type { Output } from '../output.js';
import { listed } from '../plain/client.js';
import { BATCH_BYTES, changesOf, entryOf, inHalves, writeAll, type Change } from '../plain/config-changes.js';
import { ifThere, messagesOf, PAGE } from './export.js';
import type { BackupRecord, Item, RecordKind } from './format.js';

/** How many records came to which end. */
export interface Tally {
  created: number;
  replaced: number;
  same: number;
  /** It is there, and another one. */
  kept: number;
}

type End = keyof Tally;
type Named = { name: string };

/** Records that are taken together: read in one request, sent in one, or asked for at once. */
const AT_ONCE: Readonly<Record<RecordKind, number>> = {
  config: 64,
  counter: 16,
  pool: 16,
  queue: 1,
  message: 100,
  schedule: 16,
};

export class Restorer {
  readonly tally: Tally = { created: 0, replaced: 0, same: 0, kept: 0 };
  /**
   * Messages that a dry run counts as created, and that an import of the last day may have brought and others taken:
   * the gateway tells who restores them, and nobody else.
   */
  unsure = 0;
  readonly #postern: Postern;
  readonly #overwrite: boolean;
  readonly #isDry: boolean;
  readonly #output: Output;
  #batch: BackupRecord[] = [];
  #bytes = 0;
  /** The ids of the messages that were there before the first one came back, and of those that came back. */
  #ids: Set<string> | undefined;
  /** The last queue that was not there: no import has brought its messages. */
  #newQueue: string | undefined;
  /** The last queue, if it runs here and was paused: its messages were held back, and stay so. */
  #running: string | undefined;

  constructor(postern: Postern, { overwrite, isDry }: { overwrite: boolean; isDry: boolean }, output: Output) {
    this.#postern = postern;
    this.#overwrite = overwrite;
    this.#isDry = isDry;
    this.#output = output;
  }

  /** Writes it, or keeps it until those that stand with it have come. */
  async take(record: BackupRecord): Promise<void> {
    const bytes = Buffer.byteLength(JSON.stringify(record.item));
    const [first] = this.#batch;
    const together =
      first !== undefined &&
      first.kind === record.kind &&
      first.item['queue'] === record.item['queue'] &&
      this.#batch.length < AT_ONCE[record.kind] &&
      this.#bytes + bytes <= BATCH_BYTES;
    if (!together) await this.finish();
    this.#batch.push(record);
    this.#bytes += bytes;
  }

  /** Writes what was kept. */
  async finish(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    this.#bytes = 0;
    const [first] = batch;
    if (first === undefined) return;
    if (first.kind === 'config') return this.#config(batch);
    if (first.kind === 'message') return this.#messages(batch);
    const one = {
      counter: (item: Item) => this.#counter(item),
      pool: (item: Item) => this.#pool(item),
      queue: (item: Item) => this.#queue(item),
      schedule: (item: Item) => this.#schedule(item),
    }[first.kind];
    await Promise.all(
      batch.map(async ({ kind, item, line }) => {
        if (typeof item['name'] !== 'string') throw new UsageError(`line ${line} has no "name" that is a text`);
        this.#tell(kind, item['name'], await one(item));
      }),
    );
  }

  async #config(batch: readonly BackupRecord[]): Promise<void> {
    const entries = batch.map(({ item, line }) => {
      const entry = entryOf(item);
      if (typeof entry === 'string') throw new UsageError(`line ${line} ${entry}`);
      return entry;
    });
    const changes = await changesOf(this.#postern, entries);
    const isWanted = ({ action }: Change): boolean => action === 'create' || this.#overwrite;
    const tell = (some: readonly Change[], end?: End): void => {
      for (const { action, operation } of some)
        this.#tell('config', operation.put, end ?? (action === 'create' ? 'created' : 'replaced'));
    };
    tell(
      changes.filter((change) => !isWanted(change)),
      'kept',
    );
    const wanted = changes.filter(isWanted);
    if (this.#isDry) tell(wanted);
    else for await (const part of writeAll(this.#postern, wanted, undefined)) tell(part);
    this.tally.same += entries.length - changes.length;
  }

  async #messages(batch: readonly BackupRecord[]): Promise<void> {
    const { item, line } = batch[0] as BackupRecord;
    const { queue: name } = item;
    if (typeof name !== 'string') throw new UsageError(`line ${line} has no "queue" that is a text`);
    this.#ids ??= await idsOfAll(this.#postern);
    const missing: Schemas['RestoredMessage'][] = [];
    for (const { item: each, line: at } of batch) {
      const { queue: _, ...message } = each as Item & Schemas['RestoredMessage'];
      if (typeof message.id !== 'string') throw new UsageError(`line ${at} has no "id" that is a text`);
      if (this.#ids.has(message.id)) continue;
      this.#ids.add(message.id);
      missing.push(message);
    }
    if (name === this.#running && missing.length > 0) {
      this.tally.kept += missing.length;
      this.tally.same += batch.length - missing.length;
      const why = `queue ${name} runs, and was paused when it was exported: ${missing.length} messages are left out`;
      return this.#output.tell('left out', `${why}; pause it, and run the import again`, { queue: name, line });
    }
    if (this.#isDry) {
      this.tally.created += missing.length;
      this.tally.same += batch.length - missing.length;
      if (name !== this.#newQueue) this.unsure += missing.length;
      return;
    }
    const counts = missing.length === 0 ? [] : await inHalves(missing, (some) => this.#restore(name, some));
    const created = counts.reduce((sum, count) => sum + count, 0);
    this.tally.created += created;
    this.tally.same += batch.length - created;
    const count = this.tally.created + this.tally.same;
    this.#output.tell('restored', `queue ${name}: ${created} messages`, { queue: name, created, line, count });
  }

  /** @returns how many were not there */
  async #restore(name: string, messages: Schemas['RestoredMessage'][]): Promise<number> {
    const request = { path: { name }, body: { messages } };
    const { body } = await this.#postern.request('POST /v1/queues/{name}/restore', request);
    return body.items.filter(({ status }) => status === 201).length;
  }

  /** Conditional on what was read. What is not there is 0. */
  async #counter(item: Item): Promise<End> {
    const { name, value } = item as Named & { value: number };
    const path = { name };
    const found = await ifThere(this.#postern.request('GET /v1/counters/{name}', { path }));
    const expected = found?.value ?? 0;
    if (expected === value && value !== 0) return 'same';
    if (expected !== 0 && !this.#overwrite) return 'kept';
    if (!this.#isDry) await this.#postern.request('PUT /v1/counters/{name}', { path, body: { value, expected } });
    return expected === value ? 'same' : expected === 0 ? 'created' : 'replaced';
  }

  async #pool(item: Item): Promise<End> {
    const { name, ...body } = item as Named & Schemas['PutPoolRequest'];
    const path = { name };
    const found = await ifThere(this.#postern.request('GET /v1/pools/{name}', { path }));
    const { of, members, quarantineMs } = found ?? {};
    return this.#settle(found && { of, members, quarantineMs }, body, () =>
      this.#postern.request('PUT /v1/pools/{name}', { path, body }),
    );
  }

  /** Paused before its messages come. One that is paused here stays so: somebody has a reason for it. */
  async #queue(item: Item): Promise<End> {
    const { name, config, paused } = item as Named & { config: Schemas['QueueConfig']; paused: boolean };
    const path = { name };
    const found = await ifThere(this.#postern.request('GET /v1/queues/{name}', { path }));
    // As one that an import has made which was killed before it paused it.
    this.#running = paused && found?.paused === false && !this.#overwrite ? name : undefined;
    if (found === undefined) this.#newQueue = name;
    const there = found && { config: found.config, paused: paused && found.paused };
    return this.#settle(there, { config, paused }, async () => {
      const pause = () => ifThere(this.#postern.request('POST /v1/queues/{name}/pause', { path }));
      // Who may not pause it is told so before anything is done: made and not paused, it would be passed over later.
      if (paused && found?.paused !== true) await pause();
      await this.#postern.request('PUT /v1/queues/{name}', { path, body: config });
      if (paused && found === undefined) await pause();
    });
  }

  async #schedule(item: Item): Promise<End> {
    const { name, ...body } = item as Named & Schemas['PutScheduleRequest'];
    const path = { name };
    const found = await ifThere(this.#postern.request('GET /v1/schedules/{name}', { path }));
    const { cron, timeZone, to, misfire, paused } = found ?? {};
    return this.#settle(found && { cron, timeZone, to, misfire, paused }, body, () =>
      this.#postern.request('PUT /v1/schedules/{name}', { path, body }),
    );
  }

  /** @param found as it would have been exported */
  async #settle(found: Item | undefined, wanted: Item, write: () => Promise<unknown>): Promise<End> {
    if (found !== undefined && isDeepStrictEqual(defined(found), defined(wanted))) return 'same';
    if (found !== undefined && !this.#overwrite) return 'kept';
    if (!this.#isDry) await write();
    return found === undefined ? 'created' : 'replaced';
  }

  #tell(kind: RecordKind, name: string, end: End): void {
    this.tally[end] += 1;
    if (end === 'same') return;
    const details = { action: end, kind, name, ...(this.#isDry && { dryRun: true }) };
    this.#output.result(details, () => `${this.#isDry && end !== 'kept' ? 'would be ' : ''}${end} ${kind} ${name}`);
  }
}

/**
 * Of the messages of all queues, in whatever state: one that is there may have been moved since it was exported. What
 * an import has brought back, and others have taken since, is known to the gateway (protocol C97).
 */
async function idsOfAll(postern: Postern): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const { name, depth, delayed } of listed(postern, 'queues', { limit: PAGE })) {
    if (depth + delayed === 0) continue;
    for await (const { id } of messagesOf(postern, name)) ids.add(id);
  }
  return ids;
}

function defined(item: Item): Item {
  return JSON.parse(JSON.stringify(item)) as Item;
}
