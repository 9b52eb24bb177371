/** The event streams of a configuration key and of a prefix: `state` first, then what changes. */
import type { ConfigValue } from '../../recipes/config/entry.js';
import { tooManyKeys, type ConfigObservers } from '../../recipes/config/observers.js';
import { summaryOf, type KeySummary } from '../../recipes/config/view.js';
import type { Page } from '../../page.js';
import { instant } from '../../time.js';
import type { components } from '../contract.js';
import type { EventStream, Exchange } from '../exchange.js';

type Schemas = components['schemas'];

/** A larger value is not sent in an event: a reader may be only so far behind, and may not want it. */
const VALUE_IN_EVENT_MAX = 16 * 1024;

export function describeKey({ key, etag, contentType, bytes, modifiedAt }: KeySummary): Schemas['ConfigKeySummary'] {
  return { key, etag, contentType, bytes, modifiedAt: instant(modifiedAt) };
}

export function keyStream(exchange: Exchange, observers: ConfigObservers, path: string, key: string): EventStream {
  return {
    ...maxMsOf(exchange),
    events: (sink) =>
      new Promise((resolve) => {
        const unsubscribe = observers.subscribeKey(path, ({ etag, value }) => {
          sink.send({ event: 'state', id: etag === '' ? 'absent' : etag, data: showKey(key, value) });
        });
        const end = (): void => {
          unsubscribe();
          resolve();
        };
        if (sink.signal.aborted) end();
        else sink.signal.addEventListener('abort', end, { once: true });
      }),
  };
}

export function prefixStream(
  exchange: Exchange,
  observers: ConfigObservers,
  namespace: string,
  { prefix, shows }: Pick<Page, 'prefix' | 'shows'>,
): EventStream {
  return {
    ...maxMsOf(exchange),
    events: (sink) =>
      new Promise((resolve, reject) => {
        let first = true;
        const end = (): void => {
          // The first call may come before `subscribePrefix` has returned.
          queueMicrotask(() => unsubscribe());
          resolve();
        };
        const unsubscribe = observers.subscribePrefix(namespace, prefix, ({ etag, keys, changes }) => {
          if (keys === undefined) {
            reject(tooManyKeys(prefix));
            return end();
          }
          if (first)
            sink.send({
              event: 'state',
              id: etag,
              data: { prefix, items: [...keys.values()].filter(({ key }) => shows(key)).map(describeKey) },
            });
          else
            for (const { key, now } of changes) {
              if (!shows(key)) continue;
              if (now === undefined) sink.send({ event: 'deleted', id: etag, data: { key } });
              else sink.send({ event: 'changed', id: etag, data: describeKey(now) });
            }
          first = false;
        });
        if (sink.signal.aborted) end();
        else sink.signal.addEventListener('abort', end, { once: true });
      }),
  };
}

function showKey(
  key: string,
  value: ConfigValue | undefined,
): { key: string; exists: boolean; valueBase64?: string } & Partial<Schemas['ConfigKeySummary']> {
  if (value === undefined) return { key, exists: false };
  const { bytes } = value;
  return {
    ...describeKey(summaryOf(key, value)),
    exists: true,
    ...(bytes.length <= VALUE_IN_EVENT_MAX ? { valueBase64: bytes.toString('base64') } : {}),
  };
}

function maxMsOf({ query }: Exchange): Pick<EventStream, 'maxMs'> {
  return { maxMs: (query as { maxMs?: number }).maxMs };
}
