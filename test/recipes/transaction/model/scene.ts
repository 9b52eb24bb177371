/**
 * One transaction, and all that was told about it: clients that join, vote, die, come back and repeat themselves at
 * whichever replica, and a book of the answers that notices when two of them contradict each other.
 */
import { randomUUID } from 'node:crypto';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { scaled } from '../../../support/timing.js';
import { abort, begin, join, show, vote, type Shown, type Told } from '../client.js';

export type Action =
  | { what: 'join' | 'commit' | 'abort'; who: number; at: number; waits: boolean }
  | { what: 'die' | 'look' | 'wait' | 'cancel'; who: number; at: number }
  | { what: 'kill'; at: number };

/** What is done at the same time. */
export type Step = readonly Action[];

export interface Site {
  /** Some of them may be killed; the last one never is. */
  replicas: readonly Client[];
  /** Of each transaction. */
  deadlineMs: number;
  /** Kills the replica and starts it again. */
  crash(at: number): Promise<void>;
  /** Ends the lease as silence would. */
  expire(leaseId: string): Promise<void>;
}

/** Of a transaction that nobody asks about, after its deadline, while a replica lives. */
const BOUND_MS = scaled(2_500);
const RETRIES = 200;

export class TransactionScene {
  readonly violations: string[] = [];
  #decision: Told | undefined;
  #id = '';
  #begunAt = 0;
  readonly #leases: (LeaseHandle | undefined)[];
  readonly #names: string[];
  /** By participant: what its client has asked for. */
  readonly #asked: Set<'commit' | 'abort'>[];
  readonly #polls: Promise<void>[] = [];
  #died = false;
  #cancelled = false;

  private constructor(
    readonly site: Site,
    participants: number,
  ) {
    this.#names = Array.from({ length: participants }, (_, i) => `p${i}`);
    this.#leases = this.#names.map(() => undefined);
    this.#asked = this.#names.map(() => new Set());
  }

  static async begin(site: Site, participants: number): Promise<TransactionScene> {
    const scene = new TransactionScene(site, participants);
    const coordinator = site.replicas.at(-1) as Client;
    scene.#begunAt = performance.now();
    scene.#id = await begin(coordinator, scene.#names, { deadlineMs: site.deadlineMs });
    return scene;
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) await Promise.all(step.map((action) => this.#do(action)));
  }

  /** Everybody learns the same in the end, by asking and by waiting, at every replica. @returns what was decided */
  async finish(): Promise<Shown> {
    const bystander = this.site.replicas.at(-1) as Client;
    const shown = await eventually(
      'it is decided',
      async () => {
        const look = await show(bystander, this.#id, '?consistency=stale'); // decides nothing
        return look.state === 'open' ? undefined : look;
      },
      { withinMs: Math.max(0, this.#begunAt + this.site.deadlineMs - performance.now()) + BOUND_MS },
    );
    this.#told('the history', shown);
    await Promise.all(this.#polls);
    for (const at of this.site.replicas.keys()) await this.#do({ what: 'look', who: 0, at });
    this.#judge(shown);
    await Promise.all(this.#leases.map(async (lease) => lease && bystander.endLease(lease)));
    return shown;
  }

  async #do(action: Action): Promise<void> {
    switch (action.what) {
      case 'kill':
        return this.site.crash(action.at);
      case 'die': {
        const lease = this.#leases[action.who];
        if (lease === undefined) return;
        this.#leases[action.who] = undefined;
        this.#died = true;
        return this.site.expire(lease.leaseId);
      }
      case 'look':
        return this.#ask(action, 'look', (replica) => replica.call('GET', `/v1/transactions/${this.#id}`));
      case 'wait':
        this.#polls.push(
          this.#ask(action, 'wait', (replica) => replica.call('GET', `/v1/transactions/${this.#id}?waitMs=20000`)),
        );
        return;
      case 'cancel':
        this.#cancelled = true;
        return this.#ask(action, 'cancel', (replica) => abort(replica, this.#id));
      default:
        return this.#takePart(action);
    }
  }

  async #takePart({ what, who, at, waits }: Extract<Action, { waits: boolean }>): Promise<void> {
    const lease = (this.#leases[who] ??= await this.#newLease(at));
    const name = this.#names[who] as string;
    if (what !== 'join') this.#asked[who]?.add(what);
    const asking = this.#ask({ at }, `${what} of ${name}`, (replica) =>
      what === 'join'
        ? join(replica, this.#id, lease, name)
        : vote(replica, this.#id, lease, name, { vote: what, ...(waits ? { waitMs: 20_000 } : {}) }),
    );
    if (waits) this.#polls.push(asking);
    else await asking;
  }

  #newLease(at: number): Promise<LeaseHandle> {
    const requestId = randomUUID();
    return this.#persist(at, async (replica) => {
      const reply = await replica.call('POST', '/v1/leases', { body: { ttlMs: 20_000, requestId } });
      return reply.status === 201 ? (reply.body as LeaseHandle) : undefined;
    });
  }

  /** As a client should: the same request again, at the next replica, until it is answered. */
  async #ask({ at }: { at: number }, what: string, send: (replica: Client) => Promise<Reply>): Promise<void> {
    const known = this.#decision?.state;
    const reply = await this.#persist(at, async (replica) => {
      const answer = await send(replica);
      return answer.status === 503 ? undefined : answer;
    });
    if (reply.status === 200) return this.#told(what, reply.body as Told, known);
    // Another vote than before, another lease than before, a lease that has ended: all of them say nothing about the
    // decision.
    if (reply.status !== 409 && reply.status !== 410)
      this.violations.push(`${what} was answered ${reply.status} ${JSON.stringify(reply.body)}`);
  }

  async #persist<T>(at: number, send: (replica: Client) => Promise<T | undefined>): Promise<T> {
    for (let i = 0; i < RETRIES; i += 1) {
      const replica = this.site.replicas[(at + i) % this.site.replicas.length] as Client;
      const result = await send(replica).catch(() => undefined); // killed
      if (result !== undefined) return result;
    }
    throw new Error('no replica answers');
  }

  /** @param known what had been told to anybody when the question was asked */
  #told(what: string, told: Told, known?: Told['state']): void {
    const { state } = told;
    if (known !== undefined && state !== known) this.violations.push(`${what} was told ${state} after ${known}`);
    if (state === 'open') return;
    if (this.#decision !== undefined && this.#decision.state !== state)
      this.violations.push(`${what} was told ${state}, somebody else ${this.#decision.state}`);
    this.#decision ??= told;
  }

  /** Whether there was a reason for what was decided. */
  #judge({ state, reason, causedBy, decidedAt, deadline, votes }: Shown): void {
    const wrong = (sentence: string): void => void this.violations.push(sentence);
    if (state === 'committed') {
      if (!this.#asked.every((asked) => asked.has('commit'))) wrong('committed, and not everybody had voted commit');
      if (votes.some(({ vote }) => vote !== 'commit')) wrong('committed, and shown with another vote');
      return;
    }
    const callers = (causedBy ?? []).map((name) => this.#names.indexOf(name));
    if (reason === 'voted' && !callers.every((who) => this.#asked[who]?.has('abort')))
      wrong('aborted for a vote that nobody gave');
    if (reason === 'participant-lost' && !this.#died) wrong('aborted for a participant that was not lost');
    if (reason === 'requested' && !this.#cancelled) wrong('aborted for a request that nobody made');
    if (reason === 'deadline' && Date.parse(decidedAt as string) < Date.parse(deadline))
      wrong('aborted for its deadline before it');
  }
}
