/** Keys with values, which belong to no lease. */
import type { Context } from '../context.js';
import type { Answer, Schemas } from '../contract.js';
import { PosternError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';
import type { Hold } from '../lease/hold.js';
import type { ObserveOptions } from './observe.js';
import type { Round } from '../gateways/rounds.js';

export interface ConfigValue {
  key: string;
  /** What was put: a JSON value if its type is `application/json` and it is JSON, otherwise bytes. */
  value: unknown;
  /** In quotes, to be given as `ifMatch`. It is never used again. */
  etag: string;
  contentType: string;
}

/** A key without its value. */
export interface ConfigKey {
  key: string;
  /** In quotes, to be given as `ifMatch`. */
  etag: string;
  contentType: string;
  /** The size of its value. */
  bytes: number;
}

export interface ListOptions {
  /** Only keys that begin with this; all of them unless given. */
  prefix?: string;
  /** Whether the values are wanted too. */
  values?: boolean;
}

export interface WriteOptions {
  /** The ETag that the value must have. */
  ifMatch?: string;
  /** The write happens only while this hold stands, whatever has become of this program: checked with the write. */
  guard?: Pick<Hold, 'kind' | 'name' | 'fencingToken'>;
}

export interface PutOptions extends WriteOptions {
  /** There must be no such key yet. */
  ifAbsent?: boolean;
  /** `application/json`, or `application/octet-stream` for bytes, unless given. Texts of another type are put as is. */
  contentType?: string;
}

const SHOW = 'GET /v1/config/{key}';
const NOTHING_SEEN = null;
const JSON_TYPE = 'application/json';
const PAGE = 1_000;

export class Config {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** @returns undefined if there is no such key */
  async get(key: string): Promise<ConfigValue | undefined> {
    return orNone(async () => valueOf(key, await this.#context.gateways.call(SHOW, { path: { key } })));
  }

  /**
   * Up to 64 keys as they were at one moment: of what one `write` has written, all is there or nothing.
   * @returns what each has, in the order of the keys; undefined where there is no such key
   * @throws PosternError `too-large` if the values have more than 1 MiB together
   */
  async readMany(keys: readonly string[]): Promise<(ConfigValue | undefined)[]> {
    const { body } = await this.#context.gateways.call('POST /v1/config/read', { body: { keys: [...keys] } });
    // Nothing that is known was named, so the answer has all of it.
    return (body as Schemas['ReadConfig']).items.map((item) => (item.exists ? valueOfItem(item) : undefined));
  }

  /**
   * The keys, level by level, each before those below it, page by page as they are taken. The values on one page (64
   * keys, or 1 MiB) are of one moment, those of different pages are not.
   */
  list(options: ListOptions & { values: true }): AsyncGenerator<ConfigValue, void>;
  list(options?: ListOptions): AsyncGenerator<ConfigKey, void>;
  async *list({ prefix, values = false }: ListOptions = {}): AsyncGenerator<ConfigKey | ConfigValue, void> {
    for (let pageToken: string | undefined; ;) {
      const query = {
        limit: PAGE,
        values,
        ...(prefix !== undefined && { prefix }),
        ...(pageToken !== undefined && { pageToken }),
      };
      const { body } = await this.#context.gateways.call('GET /v1/config', { query });
      const page = body as Schemas['ConfigList'];
      for (const item of page.items) yield values ? valueOfItem(item) : keyOfItem(item);
      pageToken = page.nextPageToken;
      if (pageToken === undefined) return;
    }
  }

  /**
   * @returns the ETag of the new value, in quotes
   * @throws PosternError `version-mismatch` or `fencing-token-stale` if a condition is not met: nothing was written
   */
  async put(key: string, value: unknown, options: PutOptions = {}): Promise<string> {
    const { contentType = value instanceof Uint8Array ? 'application/octet-stream' : JSON_TYPE } = options;
    const asItIs = value instanceof Uint8Array || (typeof value === 'string' && contentType !== JSON_TYPE);
    const body = (asItIs ? value : JSON.stringify(value)) as string;
    const headers = {
      ...conditionsOf(options),
      ...(options.ifAbsent && { 'If-None-Match': '*' as const }),
      'Content-Type': contentType,
    };
    const answer = await this.#context.gateways.call('PUT /v1/config/{key}', { path: { key }, headers, body });
    return `"${answer.body.etag}"`;
  }

  /** @returns whether there was such a key. @throws PosternError if a condition is not met */
  async delete(key: string, options: WriteOptions = {}): Promise<boolean> {
    const headers = conditionsOf(options);
    const deleted = await orNone(() =>
      this.#context.gateways.call('DELETE /v1/config/{key}', { path: { key }, headers }),
    );
    return deleted !== undefined;
  }

  /** Writes several keys, all or none of them. */
  async write(
    operations: Schemas['ConfigOperation'][],
    { guard }: Pick<WriteOptions, 'guard'> = {},
  ): Promise<Schemas['WrittenOperation'][]> {
    const headers = conditionsOf(guard ? { guard } : {});
    return (await this.#context.gateways.call('POST /v1/config', { headers, body: { operations } })).body.items;
  }

  /** The value now, and after every change; undefined while there is no such key. It goes on if nobody answers. */
  async *watch(key: string, { signal }: ObserveOptions = {}): AsyncGenerator<ConfigValue | undefined, void> {
    const { gateways, rounds, keeper } = this.#context;
    let last = NOTHING_SEEN as ConfigValue | undefined | null;
    while (!signal?.aborted) {
      const round: Round = last === null ? { waitMs: 0, last: false } : rounds.next(Infinity);
      const headers: Record<string, string> = last ? { 'If-None-Match': last.etag } : {};
      const parts = { path: { key }, query: { waitMs: round.waitMs }, headers };
      const options: CallOptions = { signals: [signal, keeper.closed], ...(last !== null && { patienceMs: Infinity }) };
      try {
        const answer: Answer<typeof SHOW> | undefined = await orNone(() => gateways.call(SHOW, parts, options));
        if (answer?.status === 304 || (answer === undefined && last === undefined)) continue;
        yield (last = answer && valueOf(key, answer));
      } catch (error) {
        if (signal?.aborted) return;
        if (!rounds.tooLong(error, round)) throw error;
      }
    }
  }
}

function valueOf(key: string, { headers, body }: Answer<typeof SHOW>): ConfigValue {
  const { etag = '', 'content-type': contentType = '' } = headers;
  return { key, value: decoded(body as Buffer, contentType), etag, contentType };
}

type Item = Partial<Schemas['ConfigKeySummary']> & { key: string };

function valueOfItem(item: Item): ConfigValue {
  const { key, etag = '', contentType = '', valueBase64 } = item;
  const value = valueBase64 === undefined ? item.value : decoded(Buffer.from(valueBase64, 'base64'), contentType);
  return { key, value, etag: `"${etag}"`, contentType };
}

function keyOfItem({ key, etag, contentType, bytes }: Schemas['ConfigKeySummary']): ConfigKey {
  return { key, etag: `"${etag}"`, contentType, bytes };
}

function decoded(bytes: Buffer, contentType: string): unknown {
  if (!contentType.startsWith(JSON_TYPE)) return bytes;
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return bytes; // whoever put it called it JSON
  }
}

function conditionsOf({ ifMatch, guard }: WriteOptions): { 'If-Match'?: string; Guard?: string } {
  return {
    ...(ifMatch !== undefined && { 'If-Match': ifMatch }),
    ...(guard && { Guard: `${guard.kind}=${guard.name};token=${guard.fencingToken}` }),
  };
}

async function orNone<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof PosternError && error.code === 'not-found') return undefined;
    throw error;
  }
}
