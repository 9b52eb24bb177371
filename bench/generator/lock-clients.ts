/**
 * One way to take and give back a lock for each system: a client has a connection, and a lease or session, of its own.
 */
import { HttpConnection, requestText, type Answer } from './http-connection.js';
import type { System, Target } from './job.js';
import { FLAGS, ZooKeeperConnection } from './zookeeper-connection.js';

/** Longer than any job: nobody renews. */
const TTL_MS = 240_000;
const WAIT_MS = 50_000;

export interface LockClient {
  /** @returns a number that grows from holder to holder of that lock, 0 where there is none */
  acquire(name: string): Promise<number>;
  release(): Promise<void>;
  /** Ends the lease or session. */
  close(): Promise<void>;
}

export function lockClient(target: Target): Promise<LockClient> {
  return OPEN[target.system]?.(target) ?? Promise.reject(new Error(`${target.system} has no locks here`));
}

const OPEN: Partial<Record<System, (target: Target) => Promise<LockClient>>> = {
  postern,
  baseline: postern,
  etcd,
  consul,
  webdis,
  zookeeper: (target) => zookeeper(target, false),
  'zookeeper-listing': (target) => zookeeper(target, true),
};

export function posternHeaders({ key }: Target): string {
  return key === undefined ? '' : `Authorization: Bearer ${key}\r\n`;
}

/** @returns the lease token */
export async function posternLease(http: HttpConnection, target: Target, ttlMs = TTL_MS): Promise<string> {
  const request = requestText('POST', '/v1/leases', posternHeaders(target), JSON.stringify({ ttlMs }));
  return (parsed(await http.send(request), 201) as { leaseToken: string }).leaseToken;
}

async function postern(target: Target): Promise<LockClient> {
  const http = await HttpConnection.open(target.port);
  const headers = `${posternHeaders(target)}Lease-Token: ${await posternLease(http, target)}\r\n`;
  const waiting = JSON.stringify({ waitMs: WAIT_MS });
  let path = '';
  let holdId = '';
  return {
    async acquire(name) {
      path = `/v1/locks/${target.names}${name}`;
      const answer = await http.send(requestText('POST', `${path}/acquire`, headers, waiting));
      const grant = parsed(answer, 200) as { held: boolean; holdId: string; fencingToken: number };
      if (!grant.held) throw new Error(`200 without a hold: ${answer.body}`);
      holdId = grant.holdId;
      return grant.fencingToken;
    },
    async release() {
      expect(await http.send(requestText('POST', `${path}/release`, headers, `{"holdId":"${holdId}"}`)), 204);
    },
    async close() {
      expect(await http.send(requestText('DELETE', '/v1/leases/self', headers)), 204);
      http.close();
    },
  };
}

/** @returns the lease's id, a 64-bit integer as text */
export async function etcdLease(http: HttpConnection, ttlMs = TTL_MS): Promise<string> {
  const answer = await http.send(requestText('POST', '/v3/lease/grant', '', `{"TTL":${ttlMs / 1_000}}`));
  return (parsed(answer, 200) as { ID: string }).ID;
}

async function etcd(target: Target): Promise<LockClient> {
  const http = await HttpConnection.open(target.port);
  const lease = await etcdLease(http);
  let key = '';
  return {
    async acquire(name) {
      const body = `{"name":"${base64(target.names + name)}","lease":"${lease}"}`;
      const grant = parsed(await http.send(requestText('POST', '/v3/lock/lock', '', body)), 200) as {
        key: string;
        header: { revision: string };
      };
      key = grant.key;
      return Number(grant.header.revision);
    },
    async release() {
      expect(await http.send(requestText('POST', '/v3/lock/unlock', '', `{"key":"${key}"}`)), 200);
    },
    async close() {
      expect(await http.send(requestText('POST', '/v3/lease/revoke', '', `{"ID":"${lease}"}`)), 200);
      http.close();
    },
  };
}

/** A key that a session holds, with the line that Consul has: everyone waits for the key and asks for it again. */
async function consul(target: Target): Promise<LockClient> {
  const http = await HttpConnection.open(target.port);
  const session = JSON.stringify({ TTL: `${TTL_MS / 1_000}s`, LockDelay: '0s', NodeChecks: [] });
  const put = (path: string, body = ''): Promise<Answer> => http.send(requestText('PUT', path, '', body));
  const { ID: id } = parsed(await put('/v1/session/create', session), 200) as { ID: string };
  let path = '';
  return {
    async acquire(name) {
      path = `/v1/kv/${target.names}${name}`;
      while (parsed(await put(`${path}?acquire=${id}`), 200) !== true) await untilFree(http, path);
      return 0; // the key's LockIndex is one, at the price of a further request
    },
    async release() {
      if (parsed(await put(`${path}?release=${id}`), 200) !== true) throw new Error('not given back');
    },
    async close() {
      expect(await put(`/v1/session/destroy/${id}`), 200);
      http.close();
    },
  };
}

async function untilFree(http: HttpConnection, path: string): Promise<void> {
  for (let query = ''; ;) {
    const answer = await http.send(requestText('GET', path + query, ''));
    const [entry] = parsed(answer, 200) as { Session?: string; ModifyIndex: number }[];
    if (entry?.Session === undefined) return;
    query = `?index=${entry.ModifyIndex}&wait=${WAIT_MS / 1_000}s`;
  }
}

/** Redis' own recipe, SET NX and DEL: no line to wait in, so only for locks that nobody else wants. */
async function webdis(target: Target): Promise<LockClient> {
  const http = await HttpConnection.open(target.port);
  let path = '';
  return {
    async acquire(name) {
      path = target.names + name;
      const answer = await http.send(requestText('GET', `/SET/${path}/me/NX/PX/${TTL_MS}`, ''));
      if (!answer.body.includes('OK')) throw new Error(`not taken: ${answer.body}`);
      return 0;
    },
    async release() {
      const answer = await http.send(requestText('GET', `/DEL/${path}`, ''));
      if (!answer.body.includes('1')) throw new Error(`not given back: ${answer.body}`);
    },
    close: async () => http.close(),
  };
}

/**
 * An ephemeral sequential node, made and deleted; with `listing` the children of the parent are read in the same write
 * as the creation. Among others in one line it waits for its predecessor.
 */
async function zookeeper(target: Target, listing: boolean): Promise<LockClient> {
  const session = await ZooKeeperConnection.open(target.port);
  const parents = new Set<string>();
  let path = '';
  return {
    async acquire(name) {
      const parent = `/${target.names}${name}`;
      if (!parents.has(parent)) {
        await session.create(parent, FLAGS.persistent);
        parents.add(parent);
      }
      const creation = session.create(`${parent}/n-`, FLAGS.ephemeralSequential);
      const children = listing ? session.getChildren(parent) : undefined;
      const created = await creation;
      if (typeof created === 'number') throw new Error(`the creation was refused with ${created}`);
      path = created;
      const mine = path.slice(parent.length + 1);
      if (children !== undefined) await untilFirst(session, parent, mine, await children);
      return Number(mine.slice('n-'.length)) + 1;
    },
    async release() {
      const code = await session.delete(path);
      if (code !== 0) throw new Error(`the deletion was refused with ${code}`);
    },
    close: async () => session.close(),
  };
}

async function untilFirst(
  session: ZooKeeperConnection,
  parent: string,
  mine: string,
  listing: readonly string[],
): Promise<void> {
  for (let children = listing; ; children = await session.getChildren(parent)) {
    // Sequences of one width: the order of text is that of numbers.
    const before = children.filter((name) => name < mine).sort();
    const predecessor = before.at(-1);
    if (predecessor === undefined) return;
    let changed = (): void => {};
    const change = new Promise<void>((resolve) => (changed = resolve));
    if (await session.existsAndWatch(`${parent}/${predecessor}`, changed)) await change;
    if (before.length === 1) return; // it was the first; the ones before me cannot come back
  }
}

export function expect(answer: Answer, status: number): void {
  if (answer.status !== status) throw new Error(`answered ${answer.status}: ${answer.body.slice(0, 300)}`);
}

export function parsed(answer: Answer, status: number): unknown {
  expect(answer, status);
  return JSON.parse(answer.body);
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
