/**
 * The real thing that the model is compared with: one name, some clients with a lease each, and two replicas that they use
 * as it comes.
 *
 * Every request that waits is known here until it has been answered. One whose place was taken away from it, or taken over by a repetition,
 * at the other replica learns that late; it is a *leftover*, and may be answered in any way but one: that it holds.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Client, Held, LeaseHandle, Reply } from '../support/client.js';
import { eventually } from '../support/eventually.js';
import { timing } from '../support/timing.js';
import { LineModel, type Mode, type Place } from './line-model.js';

export type Kind = 'locks' | 'rwlocks';
export type At = 0 | 1;

/** Where the clients go. */
export interface Site {
  readonly replicas: readonly [Client, Client];
  /** Ends a lease behind the back of everybody. */
  expire(leaseId: string): Promise<void>;
  /** Kills a replica and starts it again. */
  crash(at: At): Promise<void>;
}

interface Waiting {
  at: At;
  stop: AbortController;
  answer: Promise<Reply | undefined>;
}

const CLIENTS = 3;
const TTL_MS = 30_000;
const WAIT_MS = 25_000;
/** A place whose request has ended is removed 5 s later by those whom it blocks; before that, the model is right. */
const KEPT_MS = 4_000;

export class LineScene {
  readonly model = new LineModel();
  /** Commands that were run. */
  commands = 0;
  readonly past: { client: number; holdId: string }[] = [];
  readonly #leases: LeaseHandle[] = [];
  readonly #waiting = new Map<Place, Waiting>();
  #leftovers: Waiting[] = [];
  readonly #violations: string[] = [];
  #keptSince: number | undefined;

  private constructor(
    readonly site: Site,
    readonly kind: Kind,
    readonly name: string,
  ) {}

  static async begin(site: Site, kind: Kind, name: string): Promise<LineScene> {
    const scene = new LineScene(site, kind, name);
    for (let i = 0; i < CLIENTS; i += 1) scene.#leases.push(await scene.#newLease(i));
    return scene;
  }

  /** Whether the model can still be relied on; a machine that is too slow for that ends the sequence early. */
  get current(): boolean {
    return this.#keptSince === undefined || performance.now() - this.#keptSince < KEPT_MS;
  }

  get openRequests(): number {
    return this.#waiting.size + this.#leftovers.length;
  }

  lease(client: number): LeaseHandle {
    return this.#leases[client] as LeaseHandle;
  }

  send(at: At, verb: 'acquire' | 'release', client: number, body: object, signal?: AbortSignal): Promise<Reply> {
    return this.site.replicas[at].call('POST', `/v1/${this.kind}/${this.name}/${verb}`, {
      body,
      leaseToken: this.lease(client).leaseToken,
      ...(signal && { signal }),
    });
  }

  body(requestId: string, mode: Mode, more: object = {}): object {
    return { requestId, ...(this.kind === 'rwlocks' && { mode }), ...more };
  }

  /** Sends the request that waits for a place, whose node is there or is made by it. */
  wait(at: At, place: Place, keepPlace: boolean): void {
    this.disown(place);
    const stop = new AbortController();
    const { client, requestId, mode } = place;
    const body = this.body(requestId, mode, { waitMs: WAIT_MS, keepPlace });
    const answer = this.send(at, 'acquire', client, body, stop.signal).catch(() => undefined);
    place.waiting = { keepPlace };
    this.#waiting.set(place, { at, stop, answer });
  }

  /** The request that waited for the place, if there is one, has nothing to wait for any more. */
  disown(place: Place): void {
    delete place.waiting;
    const waiting = this.#waiting.get(place);
    if (waiting === undefined) return;
    this.#waiting.delete(place);
    this.#leftovers.push(waiting);
    void waiting.answer.then((reply) => {
      if (reply?.status === 200)
        this.#violations.push(`a request without a place was granted ${JSON.stringify(reply.body)}`);
    });
  }

  leave(place: Place): void {
    this.disown(place);
    if (place.hold !== undefined) this.past.push({ client: place.client, holdId: place.hold.holdId });
    this.model.remove(place);
  }

  /** The request was answered with 202: from now on time counts. */
  kept(): void {
    this.#keptSince ??= performance.now();
  }

  /** The client of one of the open requests, leftovers included, hangs up. */
  async hangUp(choice: number): Promise<void> {
    const open = [...this.#waiting];
    const index = choice % (open.length + this.#leftovers.length);
    const [place, waiting] = open[index] ?? [undefined, this.#leftovers[index - open.length] as Waiting];
    waiting.stop.abort();
    await waiting.answer;
    if (place === undefined) return void (this.#leftovers = this.#leftovers.filter((other) => other !== waiting));
    this.#waiting.delete(place);
    const keepPlace = place.waiting?.keepPlace === true;
    delete place.waiting;
    if (!keepPlace) this.leave(place);
  }

  async endLease(client: number, end: () => Promise<unknown>): Promise<void> {
    await end();
    for (const place of this.model.places.filter((other) => other.client === client)) this.leave(place);
    this.#leases[client] = await this.#newLease(client);
  }

  /** The requests that wait at a replica which is killed get no answer, and their places stay in line. */
  async crash(at: At): Promise<void> {
    await this.site.crash(at);
    for (const [place, waiting] of [...this.#waiting]) {
      if (waiting.at !== at) continue;
      const reply = await waiting.answer;
      if (reply !== undefined) throw new Error(`a killed replica answered ${reply.status}`);
      this.#waiting.delete(place);
      delete place.waiting;
    }
    this.#leftovers = this.#leftovers.filter((waiting) => waiting.at !== at);
  }

  /** Everybody learns what the model says, and both replicas show exactly that. */
  async agree(): Promise<void> {
    for (let due = this.model.due(); due.length > 0; due = this.model.due()) {
      for (const place of due) {
        const answer = await soon(this.#waiting.get(place)?.answer, () => `client ${place.client} is granted`);
        if (answer?.status !== 200) throw new Error(`the first in line was answered ${inWords(answer)}`);
        this.#waiting.delete(place);
        this.model.granted(place, answer.body as Held);
      }
    }
    for (const [place, { answer }] of this.#waiting) {
      const early = await Promise.race([answer, Promise.resolve('waits' as const)]);
      if (early !== 'waits') throw new Error(`client ${place.client} waits and was answered ${inWords(early)}`);
    }
    const expected = {
      holders: this.model
        .holders()
        .map(({ client, mode, hold }) => ({ leaseId: this.lease(client).leaseId, mode, ...hold })),
      waiters: this.model.others().map(({ client, mode }) => ({ leaseId: this.lease(client).leaseId, mode })),
    };
    for (const replica of this.site.replicas) {
      await eventually(
        `what is shown is ${JSON.stringify(expected)}`,
        async () => {
          const shown = await this.#shown(replica);
          if (!isDeepStrictEqual(shown, expected)) throw new Error(`it is ${JSON.stringify(shown)}`);
          return true;
        },
        { everyMs: 5 },
      );
    }
    if (this.#violations.length > 0) throw new Error(this.#violations.join('; '));
  }

  /** Gives everything back, and sees that nothing stays in line; then lets the leases go. */
  async finish(): Promise<void> {
    for (const place of [...this.model.places]) {
      const reply = await this.send(0, 'release', place.client, { requestId: place.requestId });
      if (reply.status !== 204) throw new Error(`a place could not be given up: ${inWords(reply)}`);
      this.leave(place);
      await this.agree();
    }
    await this.agree();
    await this.abandon();
    if (this.#violations.length > 0) throw new Error(this.#violations.join('; '));
  }

  /** Leaves nothing open, whatever has happened. */
  async abandon(): Promise<void> {
    const open = [...this.#waiting.values(), ...this.#leftovers];
    for (const { stop } of open) stop.abort();
    await Promise.all(open.map(({ answer }) => answer));
    await Promise.all(this.#leases.map((lease) => this.site.replicas[0].endLease(lease)));
  }

  async #shown(replica: Client): Promise<unknown> {
    const { holders, waiters } = (await replica.expect(200, 'GET', `/v1/${this.kind}/${this.name}`)) as {
      holders: (Held & { leaseId: string; mode: Mode })[];
      waiters: { leaseId: string; mode: Mode }[];
    };
    return {
      holders: holders.map(({ leaseId, mode, holdId, fencingToken }) => ({ leaseId, mode, holdId, fencingToken })),
      waiters: waiters.map(({ leaseId, mode }) => ({ leaseId, mode })),
    };
  }

  #newLease(client: number): Promise<LeaseHandle> {
    return (this.site.replicas[client % 2] as Client).createLease({ ttlMs: TTL_MS });
  }
}

export function inWords(reply: Reply | undefined): string {
  return reply === undefined ? 'not at all' : `${reply.status} ${JSON.stringify(reply.body)}`;
}

/** @throws when it takes longer than what happens soon may take */
async function soon<T>(answer: Promise<T> | undefined, what: () => string): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${timing.eventuallyMs} ms: ${what()}`)), timing.eventuallyMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
