/**
 * Plans a write of one or several keys: a pure decision from what was read of them to the operations of one
 * transaction.
 */
import { PosternError } from '../../errors.js';
import type { MultiOperation, MultiResult } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { withMark, type Attempt } from '../marks.js';
import { hasEtag, type ETags } from '../etags.js';
import { encodeTombstone, encodeValue, etagOf, type ConfigNode } from './entry.js';

interface Conditions {
  key: string;
  ifMatch?: ETags | undefined;
  /** The key must not exist. */
  ifAbsent?: boolean | undefined;
}

/** A check without a condition demands that the key exists. */
export type ConfigOperation =
  | (Conditions & { type: 'put'; contentType: string; bytes: Buffer })
  | (Conditions & { type: 'delete' })
  | (Conditions & { type: 'check' });

export interface Written {
  type: ConfigOperation['type'];
  key: string;
  status: 200 | 201 | 204;
  /**
   * Of the value that is there now. Undefined where there is none, and where a repeat finds that too many writes came
   * after it.
   */
  etag: string | undefined;
}

/** What was read: the path and node of each key, and which directories above them are missing. */
export interface ConfigReading {
  paths: ReadonlyMap<string, string>;
  nodes: ReadonlyMap<string, ConfigNode | undefined>;
  missing: ReadonlySet<string>;
}

export interface Plan {
  transaction: MultiOperation[];
  /** The results for the caller once the transaction has been done. */
  written(results: readonly MultiResult[]): Written[];
}

/** @throws PosternError `version-mismatch`, or `not-found` for the deletion of what is not there */
export function planWrite(operations: readonly ConfigOperation[], reading: ConfigReading, attempt: Attempt): Plan {
  const transaction: MultiOperation[] = [];
  const places = new Map<ConfigOperation, number>();
  const missing = new Set(reading.missing);
  const makeParents = (path: string): void => {
    const parent = parentOf(path);
    if (!missing.has(parent)) return;
    makeParents(parent);
    missing.delete(parent);
    transaction.push({ type: 'create', path: parent });
  };
  for (const [index, operation] of operations.entries()) {
    const node = reading.nodes.get(operation.key);
    checkConditions(operation, node, operations.length > 1 ? index : undefined);
  }
  // By key, so that a key comes before those below it.
  for (const operation of [...operations].sort((a, b) => (a.key < b.key ? -1 : 1))) {
    const path = reading.paths.get(operation.key) as string;
    const node = reading.nodes.get(operation.key);
    const version = node === undefined ? 0 : node.version + 1;
    if (node === undefined) {
      makeParents(path);
      missing.delete(path);
    }
    places.set(operation, transaction.length);
    switch (operation.type) {
      case 'put': {
        const outcome = node?.value === undefined ? 201 : 200;
        const marks = withMark(node?.marks ?? [], { ...attempt, version, outcome });
        const data = encodeValue(operation.contentType, operation.bytes, marks);
        if (node === undefined) transaction.push({ type: 'create', path, data });
        else transaction.push({ type: 'setData', path, data, version: node.version });
        break;
      }
      case 'delete': {
        const data = encodeTombstone(withMark(node?.marks ?? [], { ...attempt, version, outcome: 204 }));
        transaction.push({ type: 'setData', path, data, version: node?.version ?? 0 });
        break;
      }
      case 'check':
        if (node !== undefined) transaction.push({ type: 'check', path, version: node.version });
        // A transaction cannot check that something is not there, but it can make it and take it away.
        else {
          transaction.push({ type: 'create', path }, { type: 'delete', path, version: 0 });
          missing.add(path);
        }
        break;
    }
  }
  return {
    transaction,
    written: (results) =>
      operations.map((operation) =>
        describeWritten(operation, reading.nodes.get(operation.key), results[places.get(operation) as number]),
      ),
  };
}

/**
 * What this attempt was told when it happened, if it has: every node that it wrote says so.
 * @throws PosternError as `findMark`
 */
export function recallWrite(
  operations: readonly ConfigOperation[],
  { nodes }: ConfigReading,
  find: (node: ConfigNode) => { version: number; outcome: number } | undefined,
): Written[] | undefined {
  const marks = operations.map(({ type, key }) => {
    const node = nodes.get(key);
    return type === 'check' || node === undefined ? undefined : find(node);
  });
  // A transaction: one of them proves all.
  if (marks.every((mark) => mark === undefined)) return undefined;
  return operations.map(({ type, key }, i) => {
    const node = nodes.get(key);
    const mark = marks[i];
    const etag =
      mark !== undefined && node !== undefined && type === 'put' ? etagOf(node.czxid, mark.version) : undefined;
    const status = (mark?.outcome ?? (type === 'delete' ? 204 : 200)) as Written['status'];
    return { type, key, status, etag };
  });
}

function checkConditions(operation: ConfigOperation, node: ConfigNode | undefined, index: number | undefined): void {
  const { type, key, ifMatch, ifAbsent } = operation;
  const value = node?.value;
  const where = index === undefined ? {} : { index };
  const mismatch = (what: string): PosternError =>
    new PosternError('version-mismatch', `The key "${key}" ${what}; nothing was written.`, {
      members: { key, etag: value?.etag ?? null, ...where },
    });
  if (ifAbsent === true && value !== undefined) throw mismatch(`exists, with the ETag "${value.etag}"`);
  if (ifMatch !== undefined) {
    if (value === undefined) throw mismatch('does not exist');
    if (!hasEtag(ifMatch, value.etag)) throw mismatch(`has the ETag "${value.etag}"`);
  }
  if (value !== undefined || type === 'put') return;
  if (type === 'delete')
    throw new PosternError('not-found', `There is no key "${key}".`, { members: { key, ...where } });
  if (ifAbsent !== true) throw mismatch('does not exist');
}

function describeWritten(
  { type, key }: ConfigOperation,
  node: ConfigNode | undefined,
  result: MultiResult | undefined,
): Written {
  if (type === 'check') return { type, key, status: 200, etag: node?.value?.etag };
  if (type === 'delete') return { type, key, status: 204, etag: undefined };
  const created = result?.type === 'create' ? etagOf(result.stat.czxid, 0) : undefined;
  const etag = node === undefined ? created : etagOf(node.czxid, node.version + 1);
  return { type, key, status: node?.value === undefined ? 201 : 200, etag };
}
