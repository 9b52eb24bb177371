/**
 * The real thing that the model is compared with: one name, some clients with a lease each, and two replicas that they
 * use as it comes.
 *
 * A command ends when all that it sets off has been seen: who is due has been answered, who waits stands in line as
 * waiting, and both replicas show what the model says. So no sequence depends on how fast the machine is. What does
 * depend on time (a place that is kept without a request for it is abandoned after a while) ends a sequence that takes
 * too long, and says nothing.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Client, Held, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { scaled, timing } from '../../../support/timing.js';
import type { Hold, LineModel, Mode, Place, Wish } from './model.js';
import { inWords, OpenRequests } from './open-requests.js';
import type { At, Kind, Site, Standing } from './site.js';

interface Words {
  acquire: string;
  release: string;
  holdId: 'holdId' | 'candidateId';
  held: 'held' | 'elected';
  alreadyHeld: 'alreadyHeld' | 'alreadyElected';
}

const LOCK_WORDS: Words = {
  acquire: 'acquire',
  release: 'release',
  holdId: 'holdId',
  held: 'held',
  alreadyHeld: 'alreadyHeld',
};
const ELECTION_WORDS: Words = {
  acquire: 'campaign',
  release: 'resign',
  holdId: 'candidateId',
  held: 'elected',
  alreadyHeld: 'alreadyElected',
};

const CLIENTS = 3;
const TTL_MS = 60_000;
const WAIT_MS = 55_000;
/** Until then no wait has run out, and no lease of a client that was silent. */
const SEQUENCE_MS = 40_000;
/** A place whose request has ended is removed 5 s later by those whom it blocks; before that, the model is right. */
const KEPT_MS = 4_000;
/** What is not so after that is taken to be wrong, though the sequence has no more time. */
const PATIENCE_MS = scaled(2_000);

/** Something is not as the model says, and there was time enough for it. */
class Divergence extends Error {}

export class LineScene<M extends LineModel = LineModel> {
  /** Commands that were run. */
  commands = 0;
  /** Holds, or candidacies, that have gone. */
  readonly past: ({ client: number } & Hold)[] = [];
  /** Of each client: what was taken away from its lease, and how. */
  readonly broken = new Map<number, string[]>();
  readonly open = new OpenRequests();
  readonly words: Words;
  readonly #leases: LeaseHandle[] = [];
  /** Monotonic: how long the model can be relied on. */
  #until = performance.now() + SEQUENCE_MS;

  constructor(
    readonly site: Site,
    readonly kind: Kind,
    readonly name: string,
    readonly model: M,
  ) {
    this.words = kind === 'elections' ? ELECTION_WORDS : LOCK_WORDS;
  }

  async begin(): Promise<void> {
    for (let i = 0; i < CLIENTS; i += 1) this.#leases.push(await this.#newLease(i));
  }

  get current(): boolean {
    return performance.now() < this.#until;
  }

  lease(client: number): LeaseHandle {
    return this.#leases[client] as LeaseHandle;
  }

  call(at: At, verb: string, client: number | undefined, body: object, signal?: AbortSignal): Promise<Reply> {
    return this.site.replicas[at].call('POST', `/v1/${this.kind}/${this.name}/${verb}`, {
      body,
      ...(client !== undefined && { leaseToken: this.lease(client).leaseToken }),
      ...(signal && { signal }),
    });
  }

  acquire(at: At, client: number, body: object, signal?: AbortSignal): Promise<Reply> {
    return this.call(at, this.words.acquire, client, body, signal);
  }

  release(at: At, client: number, which: { requestId: string } | { holdId: string }): Promise<Reply> {
    const body = 'holdId' in which ? { [this.words.holdId]: which.holdId } : which;
    return this.call(at, this.words.release, client, body);
  }

  /** What may be released by its id, and whose it is. */
  releasable(): { place: Place; holdId: string }[] {
    return this.model.holders().map((place) => ({ place, holdId: (place.hold as Hold).holdId }));
  }

  /** The fencing tokens that are current, first come first. */
  tokens(): number[] {
    return this.model.holders().map(({ hold }) => (hold as Hold).fencingToken);
  }

  holdIn({ body }: Reply): Hold {
    return { holdId: body[this.words.holdId] as string, fencingToken: (body as Held).fencingToken };
  }

  /**
   * Sends the request that waits for a place, whose node is there or is made by it; resolves when it stands in line.
   */
  async wait(at: At, place: Place, keepPlace: boolean, body: object): Promise<void> {
    const { attempt: before } = (await this.#standing(place)) ?? {};
    const send = (signal: AbortSignal): Promise<Reply> =>
      this.acquire(at, place.client, { ...body, waitMs: WAIT_MS, keepPlace }, signal);
    const answer = this.open.add(place, at, keepPlace, send);
    let early: Reply | 'cut off' | undefined;
    void answer.then((reply) => (early = reply ?? 'cut off'));
    await this.soon(`client ${place.client} waits`, async () => {
      if (early !== undefined) return true; // which is found wrong
      const standing = await this.#standing(place);
      return standing?.state === 'waiting' && standing.attempt !== before;
    });
  }

  /** @param what the holdId, and the reason that the lease is told */
  takenAway(client: number, what: string): void {
    this.broken.set(client, [...(this.broken.get(client) ?? []), what]);
  }

  leave(place: Place): void {
    this.open.disown(place);
    if (place.hold !== undefined) this.past.push({ client: place.client, ...place.hold });
    this.model.remove(place);
  }

  /** Nobody waits for a place that stays: from now on time counts, where a place can be abandoned. */
  kept(): void {
    if (this.kind !== 'elections') this.#until = Math.min(this.#until, performance.now() + KEPT_MS);
  }

  async hangUp(choice: number): Promise<void> {
    const left = await this.open.hangUp(choice);
    if (left === undefined) return;
    if (left.keepPlace) this.kept();
    else this.leave(left.place);
  }

  async endLease(client: number, end: () => Promise<unknown>): Promise<void> {
    await end();
    for (const place of this.model.places.filter((other) => other.client === client)) this.leave(place);
    this.broken.delete(client);
    this.#leases[client] = await this.#newLease(client);
  }

  /** The requests that wait at a replica which is killed get no answer, and their places stay in line. */
  async crash(at: At): Promise<void> {
    await this.site.crash(at);
    await this.open.cutOff(at);
  }

  /** Everybody learns what the model says, and both replicas show exactly that. */
  async agree(): Promise<void> {
    for (let due = this.model.due(); due.length > 0; due = this.model.due()) {
      for (const place of due) {
        const answer = await this.#answerTo(place);
        if (answer?.status !== 200) throw new Error(`the first in line was answered ${inWords(answer)}`);
        this.open.done(place);
        this.model.granted(place, this.holdIn(answer));
      }
    }
    await this.open.check();
    for (const [at, replica] of this.site.replicas.entries())
      await this.soon(`replica ${at} shows what the model says`, async () => {
        await this.compare(replica);
        return true;
      });
    await this.open.check();
  }

  /** Gives everything back, and sees that nothing stays in line; then lets the leases go. */
  async finish(): Promise<void> {
    for (const place of [...this.model.places]) {
      await this.whileCurrent(async () => {
        const reply = await this.release(0, place.client, { requestId: place.requestId });
        if (reply.status !== 204) throw new Error(`a place could not be given up: ${inWords(reply)}`);
        this.leave(place);
        await this.agree();
      });
    }
    await this.end();
  }

  /** Leaves nothing open, whatever has happened. */
  async end(): Promise<void> {
    await this.open
      .stop()
      .finally(() => Promise.all(this.#leases.map((lease) => this.site.replicas[0].endLease(lease))));
  }

  /** Does what can only be judged while there is time; what goes wrong after that says nothing. */
  async whileCurrent(work: () => Promise<void>): Promise<void> {
    if (!this.current) return;
    try {
      await work();
    } catch (error) {
      if (this.current || error instanceof Divergence) throw error;
    }
  }

  /** As `eventually`, as long as the sequence has time. */
  async soon(what: string, condition: () => Promise<boolean> | boolean): Promise<void> {
    const withinMs = Math.min(timing.eventuallyMs, Math.max(0, this.#until - performance.now()));
    try {
      await eventually(what, condition, { everyMs: 5, withinMs });
    } catch (error) {
      throw withinMs < PATIENCE_MS ? error : new Divergence((error as Error).message, { cause: error });
    }
  }

  /** @throws when the replica does not show what the model says */
  protected async compare(replica: Client): Promise<void> {
    const page = (await replica.expect(200, 'GET', `/v1/${this.kind}/${this.name}`)) as ShownLine;
    const { holders, waiters, holderCount, waiterCount } = page;
    expectShown(
      {
        holders: holders.map(({ leaseId, mode, count, holdId, fencingToken }) => ({
          ...{ leaseId, mode, count, holdId, fencingToken },
        })),
        waiters: waiters.map(({ leaseId, mode, count, position }) => ({ leaseId, mode, count, position })),
        holderCount,
        waiterCount,
      },
      {
        holders: this.model.holders().map((place) => ({ ...this.#wishOf(place), ...place.hold })),
        waiters: this.model.others().map((place, i) => ({ ...this.#wishOf(place), position: i + 1 })),
        holderCount: this.model.holders().length,
        waiterCount: this.model.others().length,
      },
    );
  }

  #wishOf({ client, mode, count }: Place): Wish & { leaseId: string } {
    return { leaseId: this.lease(client).leaseId, mode, count };
  }

  async #answerTo(place: Place): Promise<Reply | undefined> {
    let answer: { reply: Reply | undefined } | undefined;
    void this.open.answerTo(place)?.then((reply) => (answer = { reply }));
    await this.soon(`client ${place.client} is answered`, () => answer !== undefined);
    return answer?.reply;
  }

  async #standing(place: Place): Promise<Standing | undefined> {
    const { leaseId } = this.lease(place.client);
    const standing = await this.site.standing(this.kind, this.name);
    return standing.find((other) => other.leaseId === leaseId && other.requestId === place.requestId);
  }

  #newLease(client: number): Promise<LeaseHandle> {
    return (this.site.replicas[client % 2] as Client).createLease({ ttlMs: TTL_MS });
  }
}

interface ShownLine {
  holders: (Held & { leaseId: string; mode: Mode; count?: number })[];
  waiters: { leaseId: string; mode: Mode; count?: number; position: number }[];
  holderCount: number;
  waiterCount: number;
}

export function expectShown(shown: object, expected: object): void {
  if (!isDeepStrictEqual(shown, expected))
    throw new Error(`it is ${JSON.stringify(shown)} and should be ${JSON.stringify(expected)}`);
}
