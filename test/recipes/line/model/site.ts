/** Where the clients of a sequence go: two replicas, and what a test can do to them or see behind their back. */
import type { LineKind } from '../../../../src/leases/layout.js';
import { decodeRecord, sortLine } from '../../../../src/recipes/line/contender.js';
import type { Client } from '../../../support/http/client.js';
import { expireSession, spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { timing } from '../../../support/timing.js';

export type Kind = 'locks' | 'rwlocks' | 'semaphores' | 'elections';
export type At = 0 | 1;

/** A node in line, as the attempt that wrote it last left it. */
export interface Standing {
  leaseId: string;
  requestId: string;
  state: 'waiting' | 'granted';
  attempt: string;
}

export interface Site extends AsyncDisposable {
  readonly replicas: readonly [Client, Client];
  /** Ends a lease behind the back of everybody. */
  expire(leaseId: string): Promise<void>;
  /** Kills a replica and starts it again. */
  crash(at: At): Promise<void>;
  /** In line order. */
  standing(kind: Kind, name: string): Promise<Standing[]>;
}

const LINE_KIND: Record<Kind, LineKind> = {
  locks: 'lock',
  rwlocks: 'rwlock',
  semaphores: 'semaphore',
  elections: 'election',
};

/** Two replicas in this process. */
export async function calmSite(): Promise<Site> {
  const pair = await startPair();
  return {
    replicas: [pair.a, pair.b],
    ...seenBy(pair.a),
    crash: () => Promise.reject(new Error('these replicas are not to be killed')),
    [Symbol.asyncDispose]: () => pair[Symbol.asyncDispose](),
  };
}

/** Two replicas in processes of their own, that can be killed. */
export async function crashSite(): Promise<Site> {
  const root = freshRoot();
  const started: AsyncDisposable[] = [];
  const stop = async (): Promise<void> => {
    for (const one of started.toReversed()) await one[Symbol.asyncDispose]();
  };
  const keep = <T extends AsyncDisposable>(one: T): T => {
    started.push(one);
    return one;
  };
  try {
    const bystander = keep(await startReplica({ root }));
    const replicas = [keep(await spawnReplica({ root })), keep(await spawnReplica({ root }))] as const;
    return {
      replicas,
      ...seenBy(bystander),
      crash: async (at) => {
        await replicas[at].kill();
        await replicas[at].restart();
      },
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function seenBy(replica: Replica): Pick<Site, 'expire' | 'standing'> {
  const { control, layout } = replica.gateway.context;
  return {
    expire: (leaseId) => expireSession(replica, leaseId),
    async standing(kind, name) {
      const deadline = performance.now() + timing.eventuallyMs;
      const directory = layout.line(LINE_KIND[kind], 'default', name);
      await control.sync(directory, deadline);
      const { children } = await control.getChildren(directory, deadline).catch(() => ({ children: [] }));
      const nodes = await Promise.all(
        sortLine(children).map((each) => control.getData(`${directory}/${each.name}`, deadline).catch(() => undefined)),
      );
      return nodes.flatMap((node) => (node === undefined ? [] : (decodeRecord(node.data) ?? [])));
    },
  };
}
