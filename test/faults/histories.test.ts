/**
 * Clients do whatever comes to their minds at two replicas, which are killed and started again meanwhile; then it is decided for every object
 * whether what they were told could have happened one after the other.
 *
 * `HISTORY_KILLS` is how often a replica is killed before the clients stop; `FAULT_SEED` repeats the choices.
 */
import { env } from 'node:process';
import { expect, test } from 'vitest';
import { History, NotApplied } from '../histories/history.js';
import { checkLinearizable, explain, type Model, type Operation, type Verdict } from '../histories/linearizable.js';
import {
  counterModel,
  holdsModel,
  queueModel,
  registerModel,
  type CounterInput,
  type CounterOutput,
  type HoldInput,
  type HoldOutput,
  type QueueInput,
  type QueueOutput,
  type RegisterInput,
  type RegisterOutput,
} from '../histories/models.js';
import { settleQueue } from '../histories/settle-queue.js';
import type { CallOptions, Client, LeaseHandle, Reply } from '../support/client.js';
import { passed } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { seededRandom } from './scene.js';

const KILLS = Number(env['HISTORY_KILLS'] ?? 3);
const CLIENTS = 4;
const OBJECTS = 3;
const TTL_MS = 20_000;
const KILL_EVERY_MS = 1_000;
/** Between two operations of a client, so that a history stays short while replicas start. */
const PAUSE_MS = 40;

type Random = () => number;

/**
 * @returns undefined when nobody knows whether it happened
 * @throws NotApplied
 */
async function ask(
  client: Client,
  method: 'GET' | 'PUT' | 'POST' | 'DELETE',
  path: string,
  options: CallOptions = {},
): Promise<Reply | undefined> {
  const reply = await client.call(method, path, options).catch((error: unknown) => {
    if ((error as { code?: string }).code === 'ECONNREFUSED') throw new NotApplied();
    return undefined; // killed with the answer
  });
  if (reply === undefined || reply.status < 500) return reply;
  const { outcome } = reply.body as { outcome?: string };
  if (outcome === 'unknown') return undefined;
  throw new NotApplied();
}

interface Scene {
  /** The one that is asked now. */
  readonly replica: () => Client;
  readonly random: Random;
}

/** Operations of one kind, by one client after the other. */
type Doer<I, O> = (history: History<I, O>, scene: Scene, client: string) => Promise<() => Promise<void>>;

const counters: Doer<CounterInput, CounterOutput> = (history, { replica, random }, client) =>
  Promise.resolve(async () => {
    const name = `c-${Math.floor(random() * OBJECTS)}`;
    const path = `/v1/counters/${name}`;
    const value = (reply: Reply | undefined): CounterOutput | undefined =>
      reply && (reply.status === 412 ? { mismatch: true } : { value: (reply.body as { value: number }).value });
    const choice = random();
    if (choice < 0.5) {
      const by = 1 + Math.floor(random() * 3);
      await history.record(name, client, { do: 'add', by }, async () =>
        value(await ask(replica(), 'POST', `${path}/add`, { body: { by } })),
      );
    } else if (choice < 0.8) {
      await history.record(name, client, { do: 'get' }, async () => value(await ask(replica(), 'GET', path)));
    } else {
      const [to, expected] = [Math.floor(random() * 5), Math.floor(random() * 5)];
      await history.record(name, client, { do: 'set', value: to, expected }, async () =>
        value(await ask(replica(), 'PUT', path, { body: { value: to, expected } })),
      );
    }
  });

const registers: Doer<RegisterInput, RegisterOutput> = (history, { replica, random }, client) => {
  const known = new Map<string, string>();
  let puts = 0;
  return Promise.resolve(async () => {
    const name = `r-${Math.floor(random() * OBJECTS)}`;
    const path = `/v1/config/${name}`;
    const choice = random();
    const headers = { 'content-type': 'text/plain' };
    if (choice < 0.4) {
      await history.record(name, client, { do: 'get' }, async () => {
        const reply = await ask(replica(), 'GET', path);
        if (reply === undefined) return undefined;
        if (reply.status === 404) return { value: null, etag: null };
        const etag = String(reply.headers['etag']);
        known.set(name, etag);
        return { value: String(reply.body), etag };
      });
    } else if (choice < 0.5) {
      await history.record(name, client, { do: 'delete' }, async () => {
        const reply = await ask(replica(), 'DELETE', path);
        return reply && { deleted: reply.status === 204 };
      });
    } else {
      const ifMatch = choice < 0.8 ? known.get(name) : undefined;
      const value = `${client}-${(puts += 1)}`;
      const input: RegisterInput = { do: 'put', value, ...(ifMatch === undefined ? {} : { ifMatch }) };
      await history.record(name, client, input, async () => {
        const reply = await ask(replica(), 'PUT', path, {
          body: value,
          headers: { ...headers, ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) },
        });
        if (reply === undefined) return undefined;
        if (reply.status === 412) return { mismatch: true };
        const etag = String(reply.headers['etag']);
        known.set(name, etag);
        return { etag };
      });
    }
  });
};

const locks: Doer<HoldInput, HoldOutput> = async (history, { replica, random }, client) => {
  const lease: LeaseHandle = await replica().createLease({ ttlMs: TTL_MS });
  const { leaseToken } = lease;
  return async () => {
    const name = `l-${Math.floor(random() * OBJECTS)}`;
    const path = `/v1/locks/${name}`;
    const choice = random();
    if (choice < 0.4) {
      const waitMs = random() < 0.5 ? 0 : Math.floor(random() * 100);
      await history.record(name, client, { do: 'acquire', by: client }, async () => {
        const reply = await ask(replica(), 'POST', `${path}/acquire`, { body: { waitMs }, leaseToken });
        if (reply === undefined) return undefined;
        return reply.status === 200
          ? { token: (reply.body as { fencingToken: number }).fencingToken }
          : { refused: true };
      });
    } else if (choice < 0.8) {
      await history.record(name, client, { do: 'release', by: client }, async () => {
        const reply = await ask(replica(), 'POST', `${path}/release`, { body: {}, leaseToken });
        return reply && { done: reply.status === 204 };
      });
    } else {
      await history.record(name, client, { do: 'show' }, async () => {
        const reply = await ask(replica(), 'GET', path);
        if (reply === undefined) return undefined;
        const { holders } = reply.body as { holders: { fencingToken: number }[] };
        return { tokens: holders.map(({ fencingToken }) => fencingToken) };
      });
    }
  };
};

const queues: Doer<QueueInput, QueueOutput> = (history, { replica, random }, client) => {
  let pushes = 0;
  return Promise.resolve(async () => {
    const name = `q-${Math.floor(random() * OBJECTS)}`;
    const path = `/v1/queues/${name}`;
    if (random() < 0.55) {
      const id = `${client}-${(pushes += 1)}`;
      await history.record(name, client, { do: 'push', id }, async () => {
        const reply = await ask(replica(), 'POST', `${path}/messages`, { body: { messages: [{ body: id }] } });
        return reply && { pushed: true };
      });
    } else {
      await pop(history, replica(), name, client);
    }
  });
};

async function pop(
  history: History<QueueInput, QueueOutput>,
  replica: Client,
  name: string,
  client: string,
): Promise<QueueOutput | undefined> {
  return history.record(name, client, { do: 'pop' }, async () => {
    const reply = await ask(replica, 'POST', `/v1/queues/${name}/pop`, { body: {} });
    if (reply === undefined) return undefined;
    const [item] = reply.status === 204 ? [] : (reply.body as { items: { body: string }[] }).items;
    return { popped: item?.body ?? null };
  });
}

async function empty(history: History<QueueInput, QueueOutput>, replica: Client, name: string): Promise<void> {
  for (;;) {
    const output = await pop(history, replica, name, 'afterwards');
    if (output !== undefined && 'popped' in output && output.popped === null) return;
  }
}

type Check<I, O> = (operations: readonly Operation<I, O>[]) => Verdict<I, O>;

function against<S, I, O>(model: Model<S, I, O>): Check<I, O> {
  return (operations) => checkLinearizable(model, operations);
}

/** A queue that has been emptied. */
const againstQueue: Check<QueueInput, QueueOutput> = (operations) => {
  let verdict: Verdict<QueueInput, QueueOutput> = { linearizable: false, steps: 0, placed: [], stuck: [] };
  for (const settled of settleQueue(operations)) {
    verdict = checkLinearizable(queueModel, settled);
    if (verdict.linearizable) break;
  }
  return verdict;
};

/** @param afterwards done to every object by nobody else at the time, and recorded too */
async function run<I, O>(
  kind: string,
  check: Check<I, O>,
  doer: Doer<I, O>,
  afterwards?: (history: History<I, O>, replica: Client, object: string) => Promise<void>,
): Promise<void> {
  const root = freshRoot();
  await using a = await spawnReplica({ root });
  await using b = await spawnReplica({ root });
  const replicas: ReplicaProcess[] = [a, b];
  const random = seededRandom(kind);
  const history = new History<I, O>();
  const scene: Scene = { random, replica: () => replicas[Math.floor(random() * replicas.length)] as Client };
  let over = false;
  let kills = 0;
  let unknown = 0;
  const doing = Promise.all(
    Array.from({ length: CLIENTS }, async (_, i) => {
      const act = await doer(history, scene, `client-${i}`);
      while (!over) {
        await passed(random() * 2 * PAUSE_MS);
        await act().catch((error: unknown) => {
          if (!(error instanceof NotApplied)) throw error;
        });
      }
    }),
  );
  const killing = (async () => {
    for (; kills < KILLS; kills += 1) {
      await passed((0.5 + random()) * KILL_EVERY_MS);
      const victim = replicas[kills % 2] as ReplicaProcess;
      await victim.kill();
      await victim.restart();
    }
  })();
  await Promise.race([killing, doing]).finally(() => (over = true));
  await Promise.all([killing, doing]);
  let steps = 0;
  for (const object of history.objects) await afterwards?.(history, a, object);
  for (const object of history.objects) {
    const operations = history.of(object);
    unknown += operations.filter(({ output }) => output === undefined).length;
    const verdict = check(operations);
    steps += verdict.steps;
    expect(verdict.linearizable, `${object}: ${explain(verdict)}`).toBe(true);
  }
  console.log(`${kind}: ${history.size} operations, ${unknown} of them unknown, ${kills} kills, ${steps} steps`);
}

const LIMIT = { timeout: scaled(60_000) + KILLS * 10 * KILL_EVERY_MS };

test('counters are linearizable while replicas are killed', LIMIT, () =>
  run('counter', against(counterModel), counters),
);
test('configuration is linearizable while replicas are killed', LIMIT, () =>
  run('config', against(registerModel), registers),
);
test('locks are linearizable while replicas are killed', LIMIT, () => run('lock', against(holdsModel()), locks));
test('queues are linearizable while replicas are killed', LIMIT, () => run('queue', againstQueue, queues, empty));
