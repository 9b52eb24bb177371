/** The event streams of a configuration key and of a prefix: `state` first, then the changes. */
import type { ConfigObservers, WatchedValue } from '../../../recipes/config/observers.js';
import type { KeySummary } from '../../../recipes/config/summaries.js';
import type { Page } from '../../../page.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { EventStream, Exchange } from '../../frame/exchange.js';
import { subscribedStream } from '../shared/state-stream.js';

type Schemas = components['schemas'];

export function describeKey({ key, etag, contentType, bytes, modifiedAt }: KeySummary): Schemas['ConfigKeySummary'] {
  return { key, etag, contentType, bytes, modifiedAt: instant(modifiedAt) };
}

export function prefixStream(
  exchange: Exchange,
  observers: ConfigObservers,
  namespace: string,
  { prefix, shows }: Pick<Page, 'prefix' | 'shows'>,
): EventStream {
  const isOurs = (key: string): boolean => key.startsWith(prefix) && shows(key);
  return subscribedStream(exchange, (sink, fail) => {
    let first = true;
    return observers.subscribePrefixes(namespace, [prefix], exchange.principal.id, ({ keys, changes, refused }) => {
      if (refused !== undefined) return fail(refused);
      const id = instant(Date.now()); // a number of changes would count also those that are not shown
      if (first) {
        const items = [...keys.values()].filter(({ key }) => isOurs(key)).map(describeKey);
        sink.send({ event: 'state', id, data: { prefix, items } });
      } else
        for (const { key, now } of changes) {
          if (!isOurs(key)) continue;
          if (now === undefined) sink.send({ event: 'deleted', id, data: { key } });
          else sink.send({ event: 'changed', id, data: describeKey(now) });
        }
      first = false;
    });
  });
}

/** The events of one key's stream. */
export function describeKeyState(
  key: string,
  value: WatchedValue | undefined,
): { key: string; exists: boolean; valueBase64?: string } & Partial<Schemas['ConfigKeySummary']> {
  if (value === undefined) return { key, exists: false };
  const { shown } = value;
  return {
    ...describeKey({ key, ...value }),
    exists: true,
    ...(shown !== undefined && { valueBase64: shown.toString('base64') }),
  };
}
