/** Drives the client of this project through `client.yaml`, as a client in another language would be (README.md). */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { Postern, type Hold, type HoldLostError } from '../../src/client/index.js';
import { eventually, passed } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { FaultyGateway } from './faulty-gateway.js';

/** Long enough for a busy machine that keeps this process from its heartbeats. */
const TTL_MS = scaled(1_200);

/** A step has one of `call`, `begin`, `end`, `expect`, `fault` and `pass`; README.md lists what goes with each. */
type Step = Record<string, unknown> & { lock?: string; as?: string; client?: string; path?: string };

const { scenarios } = parse(readFileSync(new URL('client.yaml', import.meta.url), 'utf8')) as {
  scenarios: { name: string; steps: Step[] }[];
};

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

/** A client behind a gateway of its own that is faulty when the scenario says so. */
interface Actor {
  postern: Postern;
  gateway: FaultyGateway;
  alive: boolean;
}

interface Granted {
  hold: Hold;
  grantedAt: number;
  abortedAt?: number;
}

class Scene implements AsyncDisposable {
  readonly #names = new Map<string, string>();
  readonly #actors = new Map<string, Actor>();
  readonly #granted = new Map<string, Granted>();
  readonly #begun = new Map<string, Promise<unknown>>();

  async run(step: Step): Promise<unknown> {
    if ('call' in step) return this.#call(step);
    if ('begin' in step) return this.#begun.set(String(step.as), this.#call({ ...step, call: step['begin'] }));
    if ('end' in step) return this.#begun.get(String(step['end']));
    if ('expect' in step) return (EXPECTATIONS[String(step['expect'])] as Expectation)(this, step);
    if ('fault' in step) return this.#befall(step);
    return passed(msOf(step['pass']));
  }

  name(short: unknown): string {
    const name = this.#names.get(String(short)) ?? randomUUID();
    this.#names.set(String(short), name);
    return name;
  }

  granted(as: unknown): Granted {
    return this.#granted.get(String(as)) as Granted;
  }

  /** What all clients have sent to paths that end so. */
  requests(path: unknown): { requestId: unknown }[] {
    const seen = [...this.#actors.values()].flatMap(({ gateway }) => gateway.seen);
    return seen.filter((one) => one.path.endsWith(String(path)));
  }

  async actor(client: unknown): Promise<Actor> {
    const known = this.#actors.get(String(client));
    if (known) return known;
    const gateway = await FaultyGateway.start(this.#actors.size === 0 ? pair.a.url : pair.b.url);
    const postern = new Postern({ urls: [gateway.url], ttlMs: TTL_MS, alive: () => actor.alive });
    const actor: Actor = { gateway, alive: true, postern };
    this.#actors.set(String(client), actor);
    return actor;
  }

  async #call(step: Step): Promise<void> {
    const { postern } = await this.actor(step.client);
    const calling = CALLS[String(step['call'])]?.(this, postern, step) as Promise<unknown>;
    if (step['fails']) {
      const error: unknown = await calling.then(() => 'it succeeded').catch((reason: unknown) => reason);
      return expect(error).toMatchObject(step['fails']);
    }
    const hold = await calling;
    if (step.as === undefined) return;
    const granted: Granted = { hold: hold as Hold, grantedAt: performance.now() };
    granted.hold.signal.addEventListener('abort', () => (granted.abortedAt = performance.now()));
    this.#granted.set(String(step.as), granted);
  }

  async #befall({ fault, client = 'a', path = '', times, lock, ...answer }: Step): Promise<void> {
    const actor = await this.actor(client);
    const name = this.name(lock);
    if (fault === 'answer') actor.gateway.befall({ path, times: Number(times), answer: answer as never });
    else if (fault === 'loseAnswer') actor.gateway.befall({ path, times: Number(times) });
    else if (fault === 'silent') actor.gateway.fallSilent();
    else if (fault === 'notAlive') actor.alive = false;
    else if (fault === 'revoke') await pair.a.expect(200, 'POST', `/v1/locks/${name}/revoke`, { body: {} });
    else {
      const { holders } = (await pair.a.showLock(name)) as { holders: { leaseId: string }[] };
      await pair.a.expect(204, 'DELETE', `/v1/leases/${holders[0]?.leaseId}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { postern, gateway } of this.#actors.values()) {
      // First, so that what is silent does not keep anybody waiting.
      await gateway[Symbol.asyncDispose]();
      await postern.close();
    }
  }
}

const CALLS: Record<string, (scene: Scene, postern: Postern, step: Step) => Promise<unknown>> = {
  acquire: (scene, postern, { lock, waitMs }) =>
    postern.lock(scene.name(lock)).acquire({ waitMs: waitMs === undefined ? 10_000 : Number(waitMs) }),
  release: (scene, _, { hold }) => scene.granted(hold).hold.release(),
  push: (scene, postern, { queue, body }) => postern.queue(scene.name(queue)).push(body),
  close: (_, postern) => postern.close(),
};

interface Shown {
  holders: unknown[];
  holderCount: number;
  waiterCount: number;
}

type Expectation = (scene: Scene, step: Step) => unknown;

const show = (scene: Scene, lock: unknown): Promise<Shown> => pair.b.showLock(scene.name(lock)) as Promise<Shown>;

const EXPECTATIONS: Record<string, Expectation> = {
  holder: async (scene, { lock, is }) =>
    expect((await show(scene, lock)).holders).toMatchObject([{ fencingToken: scene.granted(is).hold.fencingToken }]),
  free: (scene, { lock }) => eventually('it is free', async () => (await show(scene, lock)).holderCount === 0),
  waiting: (scene, { lock, count }) =>
    eventually('so many wait', async () => (await show(scene, lock)).waiterCount === count),
  higher: (scene, { hold, than }) =>
    expect(scene.granted(hold).hold.fencingToken).toBeGreaterThan(scene.granted(than).hold.fencingToken),
  signal: (scene, { hold, aborted }) => expect(scene.granted(hold).hold.signal.aborted).toBe(aborted),
  async aborted(scene, { hold, cause, within }) {
    const { signal } = scene.granted(hold).hold;
    const withinMs = msOf(within);
    if (withinMs > 0) await eventually('the signal aborts', () => signal.aborted, { withinMs });
    expect(signal.aborted).toBe(true);
    expect((signal.reason as HoldLostError).cause).toBe(cause);
  },
  abortedBefore: (scene, { hold, grant }) =>
    expect(scene.granted(hold).abortedAt).toBeLessThan(scene.granted(grant).grantedAt),
  depth: async (scene, { queue, is }) =>
    expect((await pair.b.expect(200, 'GET', `/v1/queues/${scene.name(queue)}`)).depth).toBe(is),
  requests(scene, { path, count, sameRequestId }) {
    const requests = scene.requests(path);
    expect(requests).toHaveLength(Number(count));
    if (sameRequestId) expect(new Set(requests.map(({ requestId }) => requestId)).size).toBe(1);
  },
};

function msOf(text: unknown): number {
  return Number.parseFloat(String(text)) * TTL_MS; // "2 ttl"
}

test.each(scenarios)('$name', async ({ steps }) => {
  await using scene = new Scene();
  for (const step of steps) await scene.run(step);
});
