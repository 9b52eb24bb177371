/** Answers that have the values of several keys: `POST /v1/config/read`, and the list with `values`. */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { isUtf8 } from 'node:buffer';
import { PosternError } from '../../../errors.js';
import { asShown } from '../../../json-text.js';
import type { ConfigValue } from '../../../recipes/config/entry.js';
import { summaryOf } from '../../../recipes/config/summaries.js';
import { READ_BYTES_MAX, readTogether } from '../../../recipes/config/together.js';
import type { KeyWithValue } from '../../../recipes/config/view.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange } from '../../frame/exchange.js';
import { parseJson } from '../../frame/json.js';
import { describeKey } from './streams.js';
import { longPollOf, notModified } from '../shared/long-poll.js';
import { namespaceOf } from '../shared/subject.js';

type Schemas = components['schemas'];

/** With more parts than this, JSON is given as bytes: to take it apart takes time in which nothing else is served. */
const JSON_VALUES_MAX = 20_000;
/** So long an answer is put into words until others have their turn. */
const TURN_MS = 5;

export async function readMany(exchange: Exchange, context: Coordination): Promise<Answer> {
  const { keys } = exchange.body as Schemas['ReadConfigRequest'];
  const namespace = await namespaceOf(exchange, context.leases);
  for (const name of keys) exchange.authorize('read', namespace, { name });
  const stale = exchange.query['consistency'] === 'stale';
  const values = await readTogether(context, { namespace, keys, deadline: exchange.deadline, stale });
  if (values === undefined) throw tooLarge();
  const etag = etagOfAll(keys.map((key, i) => [key, values[i]?.etag ?? null]));
  const items = keys.map((key, i) => (): Schemas['ReadConfig']['items'][number] => {
    const value = values[i];
    return value === undefined ? { key, exists: false } : { ...describeWithValue(key, value), exists: true };
  });
  return answerUnlessKnown(exchange, etag, items);
}

/** @param token as the answer has it, if there is another page */
export function answerPage(
  exchange: Exchange,
  items: readonly KeyWithValue[],
  token: { nextPageToken?: string },
): Promise<Answer> {
  // A sealed token is another one each time, and is behind the same key.
  const more = token.nextPageToken !== undefined;
  const etag = etagOfAll([...items.map(({ summary: { key, etag } }) => [key, etag] as const), ['', String(more)]]);
  const shown = items.map(
    ({ summary, value }) =>
      (): Schemas['ConfigKeySummary'] =>
        describeWithValue(summary.key, value),
  );
  return answerUnlessKnown(exchange, etag, shown, token);
}

/** @param items are put into words one after the other: with many small parts each takes milliseconds */
async function answerUnlessKnown(
  exchange: Exchange,
  etag: string,
  items: readonly (() => unknown)[],
  others: Readonly<Record<string, unknown>> = {},
): Promise<Answer> {
  if (longPollOf(exchange).isKnown(etag)) return notModified(etag);
  const shown: unknown[] = [];
  let until = performance.now() + TURN_MS;
  for (const item of items) {
    shown.push(asShown(item()));
    if (performance.now() < until) continue;
    await setImmediate();
    until = performance.now() + TURN_MS;
  }
  return { status: 200, body: { items: shown, ...others }, headers: { ETag: etag } };
}

function describeWithValue(key: string, value: ConfigValue): Schemas['ConfigKeySummary'] {
  const json = jsonOf(value);
  const shown = json === undefined ? { valueBase64: value.bytes.toString('base64') } : { value: json.value };
  return { ...describeKey(summaryOf(key, value)), ...shown };
}

/** @returns undefined if it is no JSON, or none that a request could have: it would not come back the same */
function jsonOf({ contentType, bytes }: ConfigValue): { value: unknown } | undefined {
  if (!/^application\/json *(;|$)/i.test(contentType) || !isUtf8(bytes)) return undefined;
  const text = bytes.toString('utf8');
  try {
    const value = parseJson(text, JSON_VALUES_MAX);
    // 1e17 would be sent as an integer that is refused.
    if (/[0-9][eE]\+?[0-9]/.test(text)) parseJson(JSON.stringify(value), JSON_VALUES_MAX);
    return { value };
  } catch {
    return undefined;
  }
}

/** An ETag is never used again, so neither is that of several. */
function etagOfAll(states: readonly (readonly [key: string, etag: string | null])[]): string {
  const hash = createHash('sha256').update(JSON.stringify(states)).digest('base64url');
  return `"${hash.slice(0, 27)}"`;
}

function tooLarge(): PosternError {
  return new PosternError(
    'too-large',
    `The values of these keys have more than ${READ_BYTES_MAX} bytes together, which is what one answer may have; read fewer keys at once.`,
    { members: { maxBytes: READ_BYTES_MAX } },
  );
}
