/**
 * A client's lease, kept by heartbeats until it ends, and what is known of its life, written into the history of every
 * object that it is used on: so each history can be judged by itself, and a client that is killed leaves all that it
 * knew.
 *
 *   take ─▶ kept (a heartbeat every ttl/3) ─▶ left      its client ended it
 *                       │                  ─▶ forsaken  its client sends no heartbeat any more, as if it had died
 *                       └─▶ lost  it was told so (410), or no heartbeat was answered in time
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Reply } from '../support/http/client.js';
import { NotApplied, now } from './history.js';
import { ask, type Recorder, type Scene } from './workload.js';

export type LeaseInput =
  /** It was created, or a heartbeat was answered: it lives for `ttlMs` from the begin of this on. */
  | { readonly do: 'lease-lives'; readonly lease: string; readonly ttlMs: number; readonly created?: true }
  /** Its client gave it up: it was told that it has ended, or could not tell that it lives. */
  | { readonly do: 'lease-lost'; readonly lease: string }
  /** Its client ended it. */
  | { readonly do: 'lease-left'; readonly lease: string }
  /**
   * It is none, but a reservation, which is bound to nothing but a time: it stands until then, on the clock of `now`.
   * Where nobody was told, it may stand until then.
   */
  | { readonly do: 'reserved'; readonly lease: string; readonly until: number };

export type LeaseOutput = { readonly ok: true };

const OK: LeaseOutput = { ok: true };

/** Of objects that the lease was used on last: there it may have something. */
const OBJECTS_MAX = 6;
const HEARTBEATS_PER_TTL = 3;
const RETRY_MS = 50;

interface Life {
  readonly begin: number;
  readonly end: number;
  readonly input: LeaseInput & { do: 'lease-lives' };
}

type LeaseRecorder = Pick<Recorder<LeaseInput, LeaseOutput>, 'add'>;

export class ClientLease {
  /** The one used last is the last. */
  readonly #objects = new Set<string>();
  readonly client: string;
  /** Unique among all leases. */
  readonly name: string;
  readonly ttlMs: number;
  leaseToken: string;
  private lastLife: Life;
  #over = false;
  #failure: unknown;

  private constructor(
    private readonly history: LeaseRecorder,
    private readonly scene: Pick<Scene, 'replica' | 'signal'>,
    taken: { client: string; name: string; ttlMs: number; leaseToken: string; life: Life },
  ) {
    this.client = taken.client;
    this.name = taken.name;
    this.ttlMs = taken.ttlMs;
    this.leaseToken = taken.leaseToken;
    this.lastLife = taken.life;
    this.#keep().catch((error: unknown) => (this.#failure = error));
  }

  /** @throws NotApplied when it is over before there is one */
  static async take(
    history: LeaseRecorder,
    scene: Pick<Scene, 'replica' | 'signal'>,
    client: string,
    ttlMs: number,
  ): Promise<ClientLease> {
    const name = `${client}/${randomUUID().slice(0, 8)}`;
    const begin = now();
    for (;;) {
      if (scene.signal.aborted) throw new NotApplied();
      const body = {
        ttlMs,
        requestId: name
          .replace(/[^A-Za-z0-9._~-]/g, '-')
          .slice(-64)
          .padEnd(22, '-'),
        label: client,
      };
      const reply = await ask(scene.replica(), 'POST', '/v1/leases', { body }).catch(unlessDone);
      if (reply?.status === 201) {
        const life: Life = { begin, end: now(), input: { do: 'lease-lives', lease: name, ttlMs, created: true } };
        const { leaseToken } = reply.body as { leaseToken: string };
        return new ClientLease(history, scene, { client, name, ttlMs, leaseToken, life });
      }
      if (reply !== undefined && reply.status !== 429)
        throw new Error(`a lease was answered with ${reply.status}: ${JSON.stringify(reply.body)}`);
      // As a repeat would find a lease that has been dying since then, it counts from the first try.
      if (now() - begin > ttlMs) return ClientLease.take(history, scene, client, ttlMs);
      await pause(RETRY_MS);
    }
  }

  /** Whether its client may go on with it. @throws Error when a heartbeat was answered as none may be */
  get kept(): boolean {
    if (this.#failure !== undefined) throw this.#failure as Error;
    if (!this.#over && now() > this.lastLife.begin + this.ttlMs) this.lose();
    return !this.#over;
  }

  /** Called before an operation on the object. */
  useOn(object: string): void {
    if (!this.#objects.delete(object)) this.#tell(object, this.lastLife);
    this.#objects.add(object);
    const [oldest] = this.#objects;
    if (this.#objects.size > OBJECTS_MAX && oldest !== undefined) this.#objects.delete(oldest);
  }

  /** Its client is told that it has ended, or has to take it for ended. */
  lose(): void {
    if (this.#over) return;
    this.#over = true;
    const at = now();
    for (const object of this.#objects)
      this.#tell(object, { begin: at, end: at, input: { do: 'lease-lost', lease: this.name } });
  }

  /** No heartbeat any more; nobody is told. */
  forsake(): void {
    this.#over = true;
  }

  /** Its client ends it. */
  async leave(): Promise<void> {
    this.#over = true;
    const begin = now();
    const leave = { begin, end: Infinity, input: { do: 'lease-left', lease: this.name } } as const;
    const reply = await ask(this.scene.replica(), 'DELETE', '/v1/leases/self', { leaseToken: this.leaseToken }).catch(
      unlessDone,
    );
    for (const object of this.#objects) this.#tell(object, reply?.status === 204 ? { ...leave, end: now() } : leave);
  }

  async #keep(): Promise<void> {
    let waitMs = this.ttlMs / HEARTBEATS_PER_TTL;
    while (!this.#over && !this.scene.signal.aborted) {
      await pause(waitMs, undefined, { ref: false });
      if (!this.kept || this.scene.signal.aborted) return;
      const begin = now();
      const { leaseToken } = this;
      const withinMs = this.ttlMs / HEARTBEATS_PER_TTL;
      const reply = await ask(this.scene.replica(), 'POST', '/v1/leases/self/heartbeat', {
        leaseToken,
        withinMs,
      }).catch(unlessDone);
      if (reply?.status === 410) this.lose();
      else if (reply?.status === 200) this.#lives(begin, reply);
      else if (reply !== undefined && reply.status !== 429)
        throw new Error(`a heartbeat was answered with ${reply.status}: ${JSON.stringify(reply.body)}`);
      waitMs = reply?.status === 200 ? this.ttlMs / HEARTBEATS_PER_TTL : RETRY_MS;
    }
  }

  #lives(begin: number, reply: Reply): void {
    const { leaseToken, lost } = reply.body as { leaseToken?: string; lost: unknown[] };
    if (lost.length > 0) throw new Error(`holds are lost that nobody broke: ${JSON.stringify(lost)}`);
    this.leaseToken = leaseToken ?? this.leaseToken;
    this.lastLife = { begin, end: now(), input: { do: 'lease-lives', lease: this.name, ttlMs: this.ttlMs } };
    for (const object of this.#objects) this.#tell(object, this.lastLife);
  }

  #tell(object: string, { begin, end, input }: { begin: number; end: number; input: LeaseInput }): void {
    this.history.add(object, { client: this.client, begin, end, input, output: end === Infinity ? undefined : OK });
  }
}

/** What was not done, or is not known to have been, is asked again. */
export function unlessDone(error: unknown): undefined {
  if (!(error instanceof NotApplied)) throw error;
}
