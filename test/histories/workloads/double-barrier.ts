/**
 * Clients enter double barriers and leave them, with leases that end now and then; some leave before they were let in.
 *
 *   none ─enter▶ coming ─told that all are in, or tired of waiting▶ leaving ─told that all have left▶ none
 */
import { setTimeout as pause } from 'node:timers/promises';
import { ClientLease, unlessDone, type LeaseInput, type LeaseOutput } from '../client-lease.js';
import { now } from '../history.js';
import { AFTERWARDS } from '../holds.js';
import { visitComplaints, type VisitInput, type VisitOutput } from '../visits.js';
import {
  ANSWER_WITHIN_MS,
  ask,
  expected,
  settleAt,
  TTL_MS,
  type Recorder,
  type Scene,
  type Workload,
} from '../workload.js';

const SIZE = 2;
const WAIT_MAX_MS = 1_500;
const SETTLE_MS = 60_000;
const RETRY_MS = 50;

type Input = VisitInput | LeaseInput;
type Output = VisitOutput | LeaseOutput;

class Visitor {
  #lease: ClientLease | undefined;
  #visit: { readonly object: string; state: 'coming' | 'leaving' } | undefined;
  entered = false;
  /** When it took its lease: as long as the one before has not ended, its round goes on without it. */
  since = now();

  constructor(
    readonly history: Recorder<Input, Output>,
    readonly scene: Scene,
    readonly client: string,
  ) {}

  async act(): Promise<void> {
    const { random, object } = this.scene;
    const lease = await this.#kept();
    const choice = random();
    this.#visit ??= { object: object(), state: 'coming' };
    if (choice < 0.02) return lease.leave();
    if (choice < 0.03) return lease.forsake();
    if (this.#visit.state === 'coming' && choice < 0.85) return this.#enter(lease, this.#visit.object);
    return this.#leave(lease, this.#visit.object);
  }

  /** In and out again. */
  async pass(object: string, until: () => boolean): Promise<void> {
    while (!until()) {
      const lease = await this.#kept();
      this.#visit ??= { object, state: 'coming' };
      const next = this.#visit.state === 'coming' ? this.#enter(lease, object) : this.#leave(lease, object);
      await next.catch(unlessDone);
      await pause(RETRY_MS);
    }
  }

  async end(): Promise<void> {
    await this.#lease?.leave();
  }

  async #kept(): Promise<ClientLease> {
    if (this.#lease?.kept === true) return this.#lease;
    this.#visit = undefined;
    this.since = now();
    return (this.#lease = await ClientLease.take(this.history, this.scene, this.client, this.scene.ttlMs ?? TTL_MS));
  }

  async #enter(lease: ClientLease, object: string): Promise<void> {
    const output = await this.#ask(lease, object, 'enter', { size: SIZE }, (body) => ({
      in: body['entered'] as boolean,
      token: body['fencingToken'] as number,
    }));
    if (output === undefined || !('in' in output) || !output.in || this.#visit === undefined) return;
    this.entered = true;
    this.#visit.state = 'leaving';
  }

  async #leave(lease: ClientLease, object: string): Promise<void> {
    if (this.#visit !== undefined) this.#visit.state = 'leaving';
    const output = await this.#ask(lease, object, 'leave', {}, (body) => ({ out: body['left'] as boolean }));
    if (output !== undefined && 'out' in output && output.out) this.#visit = undefined;
  }

  #ask(
    lease: ClientLease,
    object: string,
    verb: VisitInput['do'],
    body: Record<string, unknown>,
    outputOf: (body: Record<string, unknown>) => VisitOutput,
  ): Promise<Output | undefined> {
    const waitMs = Math.floor(this.scene.random() * WAIT_MAX_MS);
    lease.useOn(object);
    return this.history.record(object, this.client, { do: verb, by: lease.name }, async () => {
      const reply = await ask(this.scene.replica(), 'POST', `/v1/double-barriers/${object}/${verb}`, {
        body: { ...body, waitMs },
        leaseToken: lease.leaseToken,
        withinMs: waitMs + ANSWER_WITHIN_MS,
      });
      if (reply?.status === 410) lease.lose();
      // Taken away by a request of its own that came late: it may come, and go, again.
      if (reply === undefined || reply.status === 410 || reply.status === 409) return undefined;
      return outputOf(expected(reply, [200, 202]).body as Record<string, unknown>);
    });
  }
}

export const doubleBarrier: Workload<Input, Output> = {
  kind: 'double-barrier',

  async start(history, scene, client) {
    const visitor = new Visitor(history, scene, client);
    return () => visitor.act();
  },

  /** With everybody else gone, so many as it takes get in. */
  settle: (history, replica, object) =>
    settleAt(replica, object, async (scene) => {
      const visitors = Array.from({ length: SIZE }, (_, i) => new Visitor(history, scene, `${AFTERWARDS}-${i}`));
      const done = (): boolean =>
        visitors.every(({ entered }) => entered) || visitors.every(({ since }) => now() - since > SETTLE_MS);
      await Promise.all(visitors.map((visitor) => visitor.pass(object, done)));
      await Promise.all(visitors.map((visitor) => visitor.end()));
    }),

  check(operations) {
    const last = operations.filter(({ client }) => client.startsWith(AFTERWARDS));
    const letIn = last.filter(({ output }) => output !== undefined && 'in' in output && output.in);
    const stuck = new Set(last.map(({ client }) => client));
    for (const { client } of letIn) stuck.delete(client);
    return [
      ...visitComplaints(operations, SIZE),
      ...[...stuck].map((client) => `${client} was not let in within ${SETTLE_MS} ms, with everybody else gone`),
    ];
  },
};
