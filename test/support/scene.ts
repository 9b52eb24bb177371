/**
 * What the tests under faults share: a replica behind a proxy of its own, a witness that looks at a line beside the
 * gateway, and a resource that believes nothing but fencing tokens.
 */
import { env } from 'node:process';
import { expect } from 'vitest';
import { Layout } from '../../src/leases/layout.js';
import type { Lease } from '../../src/leases/lease.js';
import type { Granted, NotGranted } from '../../src/recipes/line/acquire.js';
import {
  decodeRecord,
  encodeRecord,
  sortLine,
  type Contender,
  type ContenderRecord,
} from '../../src/recipes/line/contender.js';
import { acquireLock, type AcquireLock } from '../../src/recipes/lock/lock.js';
import type { ZooKeeperClient } from '../../src/zookeeper/client.js';
import { unless } from '../../src/zookeeper/errors.js';
import type { MultiOperation, Stat } from '../../src/zookeeper/operations.js';
import { callerUntil, type Caller } from '../../src/time.js';
import type { Client, LeaseHandle } from './http/client.js';
import { passed } from './eventually.js';
import { randomFrom } from './random.js';
import { eventually } from './eventually.js';
import { startReplica, type Replica, type ReplicaOptions } from './start-gateway.js';
import { sharedZooKeeper } from './start-zookeeper.js';
import { startTcpProxy, type TcpProxy } from './zookeeper/tcp-proxy.js';
import { timing } from './timing.js';
import { TestControl } from './zookeeper/sessions.js';

/** Rounds of a scenario that is repeated: few in a normal run, `FAULT_ROUNDS=1000` to be sure. */
export function rounds(few: number): number {
  const text = env['FAULT_ROUNDS'] ?? '';
  if (text === '') return few;
  if (!(Number(text) > 0)) throw new Error(`FAULT_ROUNDS is "${text}": give a positive number`);
  return Number(text);
}

/** Random numbers in [0, 1) that `FAULT_SEED` repeats; the seed is printed. */
export function seededRandom(scenario: string): () => number {
  const seed = Number(env['FAULT_SEED'] ?? Math.floor(Math.random() * 2 ** 31)) | 0;
  console.log(`${scenario}: FAULT_SEED=${seed}`);
  return randomFrom(seed);
}

/**
 * Lets `meanwhile` happen once, when the replica is about to send a transaction like that, for itself or for a request.
 */
export function beforeMulti(
  replica: Replica,
  meanwhile: () => unknown,
  matches: (operations: readonly MultiOperation[]) => boolean = () => true,
): void {
  const next = once(meanwhile);
  onEachClient(replica, (client) => {
    const multi = client.multi.bind(client);
    client.multi = async (operations, deadline) => {
      if (matches(operations)) await next();
      return multi(operations, deadline);
    };
  });
}

/**
 * Lets `meanwhile` happen once, when the replica is about to write over what it has read, in a transaction or alone.
 */
export function beforeWrite(replica: Replica, meanwhile: () => unknown): void {
  const next = once(meanwhile);
  beforeMulti(replica, next, (operations) => operations.some(({ type }) => type !== 'check'));
  onEachClient(replica, (client) => {
    const setData = client.setData.bind(client);
    client.setData = async (...write) => {
      await next();
      return setData(...write);
    };
  });
}

/** Of the control session: its own, and those that write for a request. */
function onEachClient({ gateway }: Replica, prepare: (client: ZooKeeperClient) => void): void {
  const { control } = gateway.context;
  const writingFor = control.writingFor.bind(control);
  control.writingFor = (requester) => {
    const client = writingFor(requester);
    prepare(client);
    return client;
  };
  prepare(control);
}

function once(work: () => unknown): () => unknown {
  let done = false;
  return () => {
    if (done) return undefined;
    done = true;
    return work();
  };
}

/** A client that stays until it has its answer. */
export const PRESENT: Caller = callerUntil({ gone: false }, new AbortController().signal);

/** A deadline on the monotonic clock. */
export function soon(ms: number = timing.eventuallyMs): number {
  return performance.now() + ms;
}

export interface Cuttable extends AsyncDisposable {
  replica: Replica;
  /** Between the replica and ZooKeeper. */
  proxy: TcpProxy;
}

/** A replica whose connections to ZooKeeper can be held back and cut, without touching those of others. */
export async function startCuttable(
  options: ReplicaOptions & { root: string },
  target: string = sharedZooKeeper(),
): Promise<Cuttable> {
  const proxy = await startTcpProxy({ port: Number(target.split(':')[1]) });
  const replica = await startReplica({ ...options, zookeeper: proxy.connectString });
  return {
    replica,
    proxy,
    async [Symbol.asyncDispose]() {
      proxy.heal();
      await replica[Symbol.asyncDispose]();
      await proxy.stop();
    },
  };
}

/**
 * A replica whose control session goes through one proxy, and whose leases go through another. `control` turns new
 * connections away from then on.
 */
export async function startSplit(options: ReplicaOptions, control: TcpProxy, leases: TcpProxy): Promise<Replica> {
  leases.refuse();
  const replica = await startReplica({ ...options, zookeeper: `${control.connectString},${leases.connectString}` });
  leases.accept();
  control.refuse(); // its open connection stays
  return replica;
}

export async function leaseBehind(replica: Replica, { leaseToken }: { leaseToken: string }): Promise<Lease> {
  const lease = await replica.gateway.context.leases.openStored(leaseToken, soon());
  if (lease === undefined) throw new Error('the token does not open');
  return lease;
}

/** Acquires by a call of the recipe, where a test must decide what becomes of the answer. */
export async function acquireDirectly(
  replica: Replica,
  handle: LeaseHandle,
  name: string,
  options: Partial<AcquireLock> = {},
): Promise<Granted | NotGranted> {
  const now = performance.now();
  return acquireLock(replica.gateway.context, await leaseBehind(replica, handle), {
    name,
    requestId: '',
    waitMs: 0,
    keepPlace: false,
    data: undefined,
    receivedAt: now,
    hardDeadline: now + (options.waitMs ?? 0) + timing.eventuallyMs,
    requester: PRESENT,
    ...options,
  });
}

export interface Seen extends Contender {
  path: string;
  /** Undefined for a node that is not Postern's. */
  record: ContenderRecord | undefined;
  stat: Stat;
}

/** Looks at lines, and writes into them, with a session that no replica has anything to do with. */
export class Witness implements AsyncDisposable {
  readonly layout: Layout;

  private constructor(
    readonly control: TestControl,
    root: string,
  ) {
    this.layout = new Layout(root);
  }

  static async start(root: string, zookeeper: string = sharedZooKeeper()): Promise<Witness> {
    return new Witness(await TestControl.open(zookeeper), root);
  }

  directory(name: string): string {
    return this.layout.line('lock', 'default', name);
  }

  /** The line as it is now, first come first. Nobody stands where there is no directory. */
  async line(name: string): Promise<Seen[]> {
    const directory = this.directory(name);
    await this.control.sync(directory);
    const { children = [] } = (await unless(this.control.getChildren(directory), 'NO_NODE')) ?? {};
    const seen: Seen[] = [];
    for (const contender of sortLine(children)) {
      const path = `${directory}/${contender.name}`;
      const node = await this.control.getData(path).catch(() => undefined); // gone since it was listed
      if (node !== undefined) seen.push({ ...contender, path, record: decodeRecord(node.data), stat: node.stat });
    }
    return seen;
  }

  /** The czxid of whoever holds: the head, and only when it says `granted`. */
  async holder(name: string): Promise<number | undefined> {
    const [head] = await this.line(name);
    return head?.record?.state === 'granted' ? head.stat.czxid : undefined;
  }

  /**
   * Until the place behind the head was written `times` times since it was made: by the request that made it, which
   * says that it waits, and by each that took it over.
   */
  async untilWritten(name: string, times: number): Promise<void> {
    await eventually(
      `the place is written ${times} times`,
      async () => ((await this.line(name))[1]?.stat.version ?? 0) >= times,
    );
  }

  /** Changes what a contender says of itself, as another attempt would. */
  async rewrite({ path, record, stat }: Seen, change: Partial<ContenderRecord>): Promise<void> {
    await this.control.setData(path, encodeRecord({ ...(record as ContenderRecord), ...change }), stat.version);
  }

  /** Somebody who is no Postern, at the end of the line. */
  async standIn(name: string): Promise<string> {
    await this.control.ensurePath(this.directory(name));
    const { path } = await this.control.create(`${this.directory(name)}/_c_stranger-lock-`, Buffer.from('10.0.0.1'), {
      mode: 'ephemeral-sequential',
    });
    return path;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.control[Symbol.asyncDispose]();
  }
}

/** What a lock protects. It notices two holders, and a fencing token that is not higher than all before it. */
export class Resource {
  readonly violations: string[] = [];
  #inside: string | undefined;
  #highest = -1;
  used = 0;

  /** Called as soon as a client was told that it holds. */
  enter(who: string, fencingToken: number): void {
    if (this.#inside !== undefined) this.violations.push(`${who} came in while ${this.#inside} was inside`);
    if (fencingToken <= this.#highest)
      this.violations.push(`${who} came with the token ${fencingToken} after ${this.#highest}`);
    this.#highest = Math.max(this.#highest, fencingToken);
    this.#inside = who;
    this.used += 1;
  }

  /** Called before a client asks to release, or when it learns that its lease has ended. */
  leave(who: string): void {
    if (this.#inside === who) this.#inside = undefined;
    else this.violations.push(`${who} left and was not inside`);
  }
}

/**
 * Heartbeats for all of `leases` as a client sends them, until disposed: more would take the leases from whoever writes
 * for them elsewhere.
 */
export function keptAlive(replica: Client, leases: readonly LeaseHandle[], ttlMs: number): AsyncDisposable {
  let over = false;
  const beating = (async () => {
    while (!over) {
      for (const { status } of await Promise.all(leases.map((lease) => replica.heartbeat(lease))))
        expect(status).toBe(200);
      await passed(ttlMs / 4);
    }
  })();
  beating.catch(() => undefined);
  return {
    [Symbol.asyncDispose]: () => {
      over = true;
      return beating;
    },
  };
}
