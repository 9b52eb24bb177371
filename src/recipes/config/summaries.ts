/**
 * Keys without their values, for lists and for watchers of a prefix. The type of a value stands before its bytes, so
 * the value is read in full once; afterwards the summary is cached for as long as the znode has the same ETag, and a
 * look costs its Stat. Large values are read within the connection's budget, and once for all who ask at the same time.
 */
import { LruMap } from '../../lru-map.js';
import { unless } from '../../zookeeper/errors.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import type { NodeData, Stat } from '../../zookeeper/operations.js';
import { ifKnown } from '../known-record.js';
import { decodeNode, etagOf, type ConfigValue } from './entry.js';

/** A key without its bytes. */
export interface KeySummary {
  key: string;
  etag: string;
  contentType: string;
  bytes: number;
  modifiedAt: number;
}

/**
 * Some 6 MB. Twice as many as a stream may have: what a stream was refused for is not read again for the next attempt,
 * as it would be if the last keys of the walk drove out the first.
 */
const KNOWN_MAX = 20_000;

interface Known {
  etag: string;
  /** Undefined for a tombstone and for a directory. */
  summary: KeySummary | undefined;
}

export class KeySummaries {
  readonly #control: ControlSession;
  /** By the path of the znode. */
  readonly #known = new LruMap<string, Known>(KNOWN_MAX);

  constructor({ control }: { control: ControlSession }) {
    this.#control = control;
  }

  /** @param stat of the znode, read before. @returns what it was then, or later; undefined when there is no such key */
  async read(path: string, key: string, stat: Stat, deadline: number): Promise<KeySummary | undefined> {
    if (stat.dataLength === 0) return undefined;
    const etag = etagOf(stat.czxid, stat.version);
    const known = (): Known | undefined => {
      const found = this.#known.get(path);
      return found?.etag === etag ? found : undefined;
    };
    const found = known();
    if (found !== undefined) return found.summary;
    return this.#control.largeReads.spend(stat.dataLength, deadline, async () => {
      const meanwhile = known();
      if (meanwhile !== undefined) return meanwhile.summary;
      const node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
      return node === undefined ? undefined : this.#learn(path, key, node);
    });
  }

  #learn(path: string, key: string, node: NodeData): KeySummary | undefined {
    // What a newer release has written is passed over: nobody else's stream ends for it.
    const value = ifKnown(() => decodeNode(node))?.value;
    const summary = value === undefined ? undefined : summaryOf(key, value);
    this.#known.set(path, { etag: etagOf(node.stat.czxid, node.stat.version), summary });
    return summary;
  }
}

export function summaryOf(key: string, { etag, contentType, bytes, modifiedAt }: ConfigValue): KeySummary {
  return { key, etag, contentType, bytes: bytes.length, modifiedAt };
}
