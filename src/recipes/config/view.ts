/** What everybody may see of the configuration: one key, or all below a prefix. Up to date: read after a `sync`, unless asked otherwise. */
import type { Page } from '../../page.js';
import { fullJitter, pause } from '../../time.js';
import { isTransient, unless } from '../../zookeeper/errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { SharedReadings } from '../shared-readings.js';
import { decodeNode, type ConfigValue } from './entry.js';

/** A key without its bytes. */
export interface KeySummary {
  key: string;
  etag: string;
  contentType: string;
  bytes: number;
  modifiedAt: number;
}

type Context = Pick<Coordination, 'control' | 'layout'>;

const AT_ONCE = 32;
const RETRY_BASE_MS = 20;
const RETRY_CAP_MS = 1_000;

export class ConfigReadings {
  readonly #control: Context['control'];
  readonly #readings = new SharedReadings<ConfigValue | undefined>('the reading of the key');

  constructor({ control }: Pick<Context, 'control'>) {
    this.#control = control;
  }

  /** @param since monotonic: the reading must not have been begun before. @returns undefined when there is no such key */
  read(path: string, since: number, deadline: number): Promise<ConfigValue | undefined> {
    return this.#readings.read(path, since, deadline, async (shared) => {
      for (let tries = 0; ; tries += 1) {
        try {
          const [, value] = await Promise.all([this.#control.sync(path, shared), this.readStale(path, shared)]);
          return value;
        } catch (error) {
          // Whoever has waited for long shall not be sent away because the connection was lost in the last moment.
          if (!isTransient(error) || performance.now() >= shared) throw error;
          await pause(fullJitter(tries, RETRY_BASE_MS, RETRY_CAP_MS));
        }
      }
    });
  }

  /** As the server at hand knows it. */
  async readStale(path: string, deadline: number): Promise<ConfigValue | undefined> {
    const node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
    return node === undefined ? undefined : decodeNode(node).value;
  }
}

export function summaryOf(key: string, { etag, contentType, bytes, modifiedAt }: ConfigValue): KeySummary {
  return { key, etag, contentType, bytes: bytes.length, modifiedAt };
}

/** Keys in the order of the tree: by their names level by level, each before those below it. */
export async function listKeys(
  context: Context,
  namespace: string,
  page: Page,
  deadline: number,
  stale: boolean,
): Promise<{ items: KeySummary[]; next: string | undefined }> {
  const items: KeySummary[] = [];
  if (!stale) await context.control.sync(context.layout.config(namespace), deadline);
  const full = await walkKeys(context, namespace, page, deadline, (key, value) => {
    if (page.shows(key)) items.push(summaryOf(key, value));
    return items.length <= page.limit;
  });
  if (!full) items.pop();
  return { items, next: full ? undefined : items.at(-1)?.key };
}

/** Goes over the keys of a prefix, until `visit` returns false. @returns whether it came to the end */
export async function walkKeys(
  { control, layout }: Context,
  namespace: string,
  { prefix, after }: Pick<Page, 'prefix' | 'after'>,
  deadline: number,
  visit: (key: string, value: ConfigValue) => boolean,
): Promise<boolean> {
  const behind = after?.split('/');
  /** @param key of the directory; empty for the root */
  const below = async (key: string): Promise<boolean> => {
    const path = key === '' ? layout.config(namespace) : layout.configKey(namespace, key);
    const listing = await unless(control.getChildren(path, deadline), 'NO_NODE');
    const keys = (listing?.children ?? [])
      .sort()
      .map((name) => (key === '' ? name : `${key}/${name}`))
      .filter((one) => (one.startsWith(prefix) || prefix.startsWith(`${one}/`)) && !isBefore(one, behind));
    for (let i = 0; i < keys.length; i += AT_ONCE) {
      const batch = keys.slice(i, i + AT_ONCE);
      const nodes = await Promise.all(
        batch.map((one) => unless(control.getData(layout.configKey(namespace, one), deadline), 'NO_NODE')),
      );
      for (const [j, node] of nodes.entries()) {
        if (node !== undefined && !(await at(batch[j] as string, node))) return false;
      }
    }
    return true;
  };
  const at = async (key: string, node: NodeData): Promise<boolean> => {
    const { value } = decodeNode(node);
    const wanted = key.startsWith(prefix) && (after === undefined || compareKeys(key, after) > 0);
    if (value !== undefined && wanted && !visit(key, value)) return false;
    return node.stat.numChildren === 0 || below(key);
  };
  const root = prefix.includes('/') ? prefix.slice(0, prefix.lastIndexOf('/')) : '';
  return below(root);
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
