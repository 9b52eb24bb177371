/** Leases looked up by their public ids, without their tokens: each keeps a record in a znode of its own. */
import type { Page } from '../page.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { NodeData } from '../zookeeper/operations.js';
import { readOfMany } from '../zookeeper/read-nodes.js';
import { BUCKET_DIGITS, type Layout } from './layout.js';

/** The content of a lease's own znode; JSON. */
export interface LeaseRecord {
  leaseId: string;
  principal: string;
  label: string;
  metadata: Record<string, unknown>;
  ttlMs: number;
  /** Epoch ms. */
  createdAt: number;
  /** The sealed token, so that an administrator can end a lease by its id. */
  token: string;
}

/** What a list shows of it. */
export type LeaseSummary = Pick<LeaseRecord, 'leaseId' | 'principal' | 'label' | 'ttlMs' | 'createdAt'>;

/** With the most metadata, the longest label and principal, and the token. */
const RECORD_BYTES_MAX = 8 * 1024;

export class LeaseRecords {
  readonly #control: ControlSession;
  readonly #layout: Layout;

  constructor(control: ControlSession, layout: Layout) {
    this.#control = control;
    this.#layout = layout;
  }

  /** The leases of a namespace, ordered by id. */
  async list(
    namespace: string,
    page: Page,
    deadline: number,
  ): Promise<{ items: LeaseSummary[]; next: string | undefined }> {
    const directory = this.#layout.leases(namespace);
    const zk = this.#control.until(deadline);
    await zk.sync(directory);
    const buckets = (await zk.children(directory)).sort();
    const items: LeaseSummary[] = [];
    for (const bucket of buckets) {
      if (page.after !== undefined && bucket < page.after.slice(0, BUCKET_DIGITS)) continue;
      if (!bucket.startsWith(page.prefix.slice(0, BUCKET_DIGITS)) && !page.prefix.startsWith(bucket)) continue;
      const ids = (await zk.names(`${directory}/${bucket}`)).page(page);
      const wanted = ids.slice(0, page.limit - items.length + 1);
      const paths = wanted.map((id) => this.#layout.lease(namespace, id));
      const records = await readOfMany(zk, this.#control.largeReads, paths, summaryOf, RECORD_BYTES_MAX);
      for (const record of records) if (record !== undefined) items.push(record);
      if (items.length > page.limit) return { items: items.slice(0, page.limit), next: items[page.limit - 1]?.leaseId };
      // Some have ended since they were listed: what is behind them comes with the next page.
      if (ids.length > wanted.length) return { items, next: wanted.at(-1) };
    }
    return { items, next: undefined };
  }

  /** The record of the lease with this public id. */
  async find(namespace: string, leaseId: string, deadline: number): Promise<LeaseRecord | undefined> {
    const node = await this.#control.until(deadline).find(this.#layout.lease(namespace, leaseId));
    return node === undefined ? undefined : parseRecord(node.data);
  }

  /** The living lease with this session. Searches all leases of the namespace: only for rare cases. */
  async findByOwner(namespace: string, owner: bigint, deadline: number): Promise<LeaseRecord | undefined> {
    const zk = this.#control.until(deadline);
    for (const bucket of await zk.children(this.#layout.leases(namespace))) {
      const ids = await zk.children(`${this.#layout.leases(namespace)}/${bucket}`);
      const stats = await Promise.all(ids.map((id) => zk.exists(this.#layout.lease(namespace, id))));
      const found = ids.find((_, i) => stats[i]?.ephemeralOwner === owner);
      if (found !== undefined) return this.find(namespace, found, deadline);
    }
    return undefined;
  }
}

function summaryOf({ data }: Pick<NodeData, 'data'>): LeaseSummary | undefined {
  const record = parseRecord(data);
  if (record === undefined) return undefined;
  const { leaseId, principal, label, ttlMs, createdAt } = record; // without the metadata, which may be long
  return { leaseId, principal, label, ttlMs, createdAt };
}

/** Another program that writes under the same root may have put anything there. */
export function parseRecord(data: Buffer): LeaseRecord | undefined {
  try {
    const record = JSON.parse(data.toString('utf8')) as LeaseRecord;
    return typeof record.leaseId === 'string' && typeof record.token === 'string' ? record : undefined;
  } catch {
    return undefined;
  }
}
