/** Where the clients of a sequence go: two replicas, and what a test can do to them or see behind their back. */
import { ROOM, type LineKind } from '../../../../src/leases/layout.js';
import { decodeRecord, sortLine } from '../../../../src/recipes/line/contender.js';
import type { ControlSession } from '../../../../src/zookeeper/control-session.js';
import { unless } from '../../../../src/zookeeper/errors.js';
import type { MultiOperation } from '../../../../src/zookeeper/operations.js';
import { formatSequence, nextSequence } from '../../../../src/zookeeper/paths.js';
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
  /** In line order; behind the line of a lock whoever is in its room. */
  standing(kind: Kind, name: string): Promise<Standing[]>;
  /** Takes numbers in the room of a lock, as so many do who come there and go, one after the other. */
  comeAndGo(name: string, times: number): Promise<void>;
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

function seenBy(replica: Replica): Pick<Site, 'expire' | 'standing' | 'comeAndGo'> {
  const { control, layout } = replica.gateway.context;
  const standingIn = async (directory: string): Promise<Standing[]> => {
    const deadline = performance.now() + timing.eventuallyMs;
    await control.sync(directory, deadline);
    const { children } = await control.getChildren(directory, deadline).catch(() => ({ children: [] }));
    const nodes = await Promise.all(
      sortLine(children).map((each) => control.getData(`${directory}/${each.name}`, deadline).catch(() => undefined)),
    );
    return nodes.flatMap((node) => (node === undefined ? [] : (decodeRecord(node.data) ?? [])));
  };
  return {
    expire: (leaseId) => expireSession(replica, leaseId),
    async standing(kind, name) {
      // The room first: whoever goes from there into the line meanwhile is seen.
      const inRoom = kind === 'locks' ? await standingIn(layout.line(ROOM, 'default', name)) : [];
      return [...(await standingIn(layout.line(LINE_KIND[kind], 'default', name))), ...inRoom];
    },
    comeAndGo: (name, times) => takeNumbers(control, layout.line(ROOM, 'default', name), times),
  };
}

/** In one transaction, so that nobody sees who took them. */
async function takeNumbers(control: ControlSession, directory: string, count: number): Promise<void> {
  const deadline = performance.now() + timing.eventuallyMs;
  const numbers = Array.from({ length: count }, (_, i) => i);
  const creates = numbers.map((): MultiOperation => ({
    type: 'create',
    path: `${directory}/passing-`,
    mode: 'persistent-sequential',
  }));
  for (;;) {
    await control.sync(directory, deadline);
    const { stat } = await control.getChildren(directory, deadline);
    const next = nextSequence(stat);
    const deletes = numbers.map((i): MultiOperation => ({
      type: 'delete',
      path: `${directory}/passing-${formatSequence(next + i)}`,
    }));
    if ((await unless(control.multi([...creates, ...deletes], deadline), 'NO_NODE')) !== undefined) return;
  }
}
