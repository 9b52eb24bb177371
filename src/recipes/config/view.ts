/**
 * The public view of the configuration: one key, read behind a quorum unless asked otherwise, or all keys below a
 * prefix, read after a `sync`.
 */
import { countWhile, type Page, type PageEnd } from '../../page.js';
import { hasLonger, prefixIn } from '../../prefixes.js';
import { unless } from '../../zookeeper/errors.js';
import type { Stat } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { decodeNode, type ConfigValue } from './entry.js';
import { summaryOf, type KeySummaries, type KeySummary } from './summaries.js';
import { READ_BYTES_MAX, READ_KEYS_MAX, readTogether } from './together.js';

type Context = Pick<Coordination, 'control' | 'layout'>;

export interface ListContext extends Context {
  summaries: KeySummaries;
}

const AT_ONCE = 64;
/**
 * The most znodes that one page reads: many may be recently deleted, or hidden from the caller. The page ends there,
 * however few keys it has.
 */
const LOOKED_MAX = 1_000;

/** As the server at hand knows it. @returns undefined when there is no such key */
export async function readKeyStale(
  control: Context['control'],
  path: string,
  deadline: number,
): Promise<ConfigValue | undefined> {
  const node = await unless(control.getData(path, deadline), 'NO_NODE');
  return node === undefined ? undefined : decodeNode(node).value;
}

/** Keys in tree order: by name level by level, each before those below it. */
export async function listKeys(
  context: ListContext,
  namespace: string,
  page: Page & { maxBytes?: number },
  deadline: number,
  stale: boolean,
): Promise<{ items: KeySummary[]; next: PageEnd | undefined }> {
  const { maxBytes = Infinity } = page;
  const items: KeySummary[] = [];
  let bytes = 0;
  if (!stale) await context.control.sync(context.layout.config(namespace), deadline);
  let looked = 0;
  let end: PageEnd | undefined;
  await walkKeys(context, namespace, { ...page, prefixes: [page.prefix] }, deadline, (key, summary) => {
    bytes += summary?.bytes ?? 0;
    if (summary !== undefined && (items.length === page.limit || (items.length > 0 && bytes > maxBytes))) {
      // Not the last key read: the caller may not be allowed to know it.
      end = { at: items.at(-1)?.key as string, secret: false };
      return false;
    }
    if (summary !== undefined) items.push(summary);
    looked += 1;
    if (looked < LOOKED_MAX) return true;
    end = { at: key, secret: true };
    return false;
  });
  return { items, next: end };
}

export interface KeyWithValue {
  summary: KeySummary;
  value: ConfigValue;
}

/**
 * As `listKeys`, with the values, all of one moment after the keys were listed: what has been deleted meanwhile is left
 * out. A page ends early where it would have too many values, or too large ones.
 */
export async function listValues(
  context: ListContext,
  namespace: string,
  page: Page,
  deadline: number,
  stale: boolean,
): Promise<{ items: KeyWithValue[]; next: PageEnd | undefined }> {
  const limited = { ...page, limit: Math.min(page.limit, READ_KEYS_MAX), maxBytes: READ_BYTES_MAX };
  const { items, next } = await listKeys(context, namespace, limited, deadline, stale);
  let keys = items.map(({ key }) => key);
  for (;;) {
    // Behind the `sync` of the list.
    const values = await readTogether(context, { namespace, keys, deadline, stale: true });
    if (values !== undefined) {
      const found = keys.flatMap((key, i) => {
        const value = values[i];
        return value === undefined ? [] : [{ summary: summaryOf(key, value), value }];
      });
      const at = keys.at(-1);
      return { items: found, next: at === undefined || keys.length === items.length ? next : { at, secret: false } };
    }
    keys = keys.slice(0, Math.ceil(keys.length / 2)); // they have grown since; a single one always fits
  }
}

export interface Walk {
  /** The keys that begin with one of these. */
  readonly prefixes: readonly string[];
  readonly after: string | undefined;
  /** Of the others nothing is read. */
  readonly shows: (key: string) => boolean;
}

/**
 * Visits the keys, including those without a value, until `visit` returns false.
 * @returns whether it came to the end
 */
export async function walkKeys(
  { control, layout, summaries }: ListContext,
  namespace: string,
  { prefixes, after, shows }: Walk,
  deadline: number,
  visit: (key: string, summary: KeySummary | undefined) => boolean,
): Promise<boolean> {
  const behind = after?.split('/');
  const leadsTo = (key: string): boolean =>
    prefixIn(prefixes, `${key}/`) !== undefined || hasLonger(prefixes, `${key}/`);
  const wants = (key: string): boolean =>
    prefixIn(prefixes, key) !== undefined && (after === undefined || compareKeys(key, after) > 0);
  const look = async (key: string): Promise<{ stat: Stat; summary: KeySummary | undefined } | undefined> => {
    const path = layout.configKey(namespace, key);
    const stat = await control.exists(path, deadline);
    if (stat === undefined) return undefined;
    const isRead = wants(key) && shows(key);
    return { stat, summary: isRead ? await summaries.read(path, key, stat, deadline) : undefined };
  };
  /** @param key of the directory; empty for the root */
  const below = async (key: string): Promise<boolean> => {
    const path = key === '' ? layout.config(namespace) : layout.configKey(namespace, key);
    const names = (await control.getNames(path, deadline)).sorted;
    const keyOf = (name: string): string => (key === '' ? name : `${key}/${name}`);
    // Not all are looked at for the few of one page.
    let next = countWhile(names, (name) => isBefore(keyOf(name), behind));
    while (next < names.length) {
      const batch: string[] = [];
      for (; next < names.length && batch.length < AT_ONCE; next += 1) {
        const one = keyOf(names[next] as string);
        if (leadsTo(one)) batch.push(one);
      }
      const looks = await Promise.all(batch.map(look));
      for (const [j, looked] of looks.entries()) {
        if (looked === undefined) continue;
        const at = batch[j] as string;
        if (wants(at) && !visit(at, looked.summary)) return false;
        if (looked.stat.numChildren > 0 && !(await below(at))) return false;
      }
    }
    return true;
  };
  return below(directoryOf(prefixes));
}

/** The deepest directory that has all keys of the prefixes; empty for the root. */
function directoryOf(prefixes: readonly string[]): string {
  const [first = '', ...others] = prefixes;
  let directory = parentKeyOf(first);
  while (others.some((prefix) => directory !== '' && !prefix.startsWith(`${directory}/`)))
    directory = parentKeyOf(directory);
  return directory;
}

/** Of a key or a prefix: the directory in which it is; empty for the root. */
export function parentKeyOf(key: string): string {
  return key.slice(0, Math.max(0, key.lastIndexOf('/')));
}

/** Negative when `a` comes first: level by level, each key before those below it. */
export function compareKeys(a: string, b: string): number {
  const [left, right] = [a.split('/'), b.split('/')];
  for (const [i, name] of left.entries()) {
    const other = right[i];
    if (other === undefined) return 1;
    if (name !== other) return name < other ? -1 : 1;
  }
  return left.length - right.length;
}

/** Whether this key and all below it come before the last one of the page before. */
function isBefore(key: string, behind: readonly string[] | undefined): boolean {
  if (behind === undefined) return false;
  const names = key.split('/');
  for (const [i, name] of names.entries()) {
    const other = behind[i];
    if (other === undefined) return false;
    if (name !== other) return name < other;
  }
  return false;
}
