/**
 * An election: the line of candidates, what the leader says of itself, and two who only look, each at a replica of its
 * own.
 */
import type { Client, Reply } from '../../../support/http/client.js';
import { ElectionModel, type Candidate } from './model.js';
import { ElectionObserver, seenLeader, type SeenLeader } from './observer.js';
import { expectShown, LineScene } from '../../line/model/scene.js';
import type { Place } from '../../line/model/model.js';
import type { At, Site, Standing } from '../../line/model/site.js';

interface ShownElection {
  leader: SeenLeader | null;
  candidates: { candidateId: string; leaseId: string; value: unknown; preference: number; position: number }[];
  candidateCount: number;
}

export class ElectionScene extends LineScene<ElectionModel> {
  readonly #observers: ElectionObserver[] = [];
  /** The replica at which is looked by stream; at the other one it is by long poll. */
  readonly #streamAt: At;

  constructor(site: Site, name: string, streamAt: At) {
    super(site, 'elections', name, new ElectionModel());
    this.#streamAt = streamAt;
  }

  override async begin(): Promise<void> {
    await super.begin();
    for (const at of [0, 1] as const) await this.#observe(at);
  }

  override releasable(): { place: Place; holdId: string }[] {
    return this.model.places.map((place) => ({ place, holdId: place.candidateId as string }));
  }

  override tokens(): number[] {
    const { leader } = this.model;
    return leader === undefined ? [] : [leader.fencingToken as number];
  }

  override leave(candidate: Candidate): void {
    super.leave(candidate);
    // Of one that never led no more than its id is known.
    const { client, hold, candidateId, fencingToken = 0 } = candidate;
    if (hold === undefined && candidateId !== undefined) this.past.push({ client, holdId: candidateId, fencingToken });
  }

  /** Who would make way for one with this preference that came now. */
  makingWay(preference: number): Candidate[] {
    return this.model.makingWay(preference, (client) => this.broken.get(client)?.length ?? 0);
  }

  /** They have made way for one that is preferred, and are in the model no more. */
  async standBehind(preferred: Candidate, passed: readonly Candidate[]): Promise<void> {
    for (const place of passed) {
      if (place.waiting === undefined) {
        this.takenAway(place.client, `${place.candidateId} overtaken`);
        this.leave(place);
      } else {
        place.passed += 1;
        this.#standsNoMore(place);
      }
    }
    await this.#standAgain(preferred, passed);
  }

  /** For another candidate. Those who wait stand again, behind all others, in the order in which they come. */
  async makeWay(leader: Candidate, overtaken: readonly Candidate[], successor: Candidate): Promise<void> {
    this.takenAway(leader.client, `${leader.candidateId} broken`);
    this.leave(leader);
    for (const place of overtaken) {
      this.takenAway(place.client, `${place.candidateId} overtaken`);
      if (place.waiting === undefined) this.leave(place);
      else this.#standsNoMore(place);
    }
    await this.#standAgain(successor, overtaken);
  }

  async #standAgain(before: Candidate, overtaken: readonly Candidate[]): Promise<void> {
    const again = overtaken.filter(({ waiting }) => waiting !== undefined);
    const isOf = ({ client, requestId }: Candidate, standing: Standing): boolean =>
      standing.leaseId === this.lease(client).leaseId && standing.requestId === requestId;
    let line: Standing[] = [];
    await this.soon('those who were overtaken stand again', async () => {
      const all = await this.site.standing(this.kind, this.name);
      // Until they have made way they stand before it.
      line = all.slice(1 + all.findIndex((other) => isOf(before, other)));
      return again.every((place) => line.some((other) => isOf(place, other) && other.state === 'waiting'));
    });
    for (const standing of line) {
      const place = again.find((other) => isOf(other, standing));
      if (place !== undefined) this.model.join(place);
    }
  }

  #standsNoMore(place: Candidate): void {
    this.past.push({ client: place.client, holdId: place.candidateId as string, fencingToken: 0 });
    this.model.remove(place);
    delete place.candidateId;
  }

  /** As the leader, if it is that, by proclaim or acknowledge. */
  speak(at: At, client: number, verb: 'proclaim' | 'acknowledge', body: object): Promise<Reply> {
    return this.call(at, verb, client, body);
  }

  override async crash(at: At): Promise<void> {
    await this.#observers[at]?.close();
    await super.crash(at);
    await this.#observe(at);
  }

  override async agree(): Promise<void> {
    await super.agree();
    const { leader } = this.model;
    const seen = leader === undefined ? null : this.#seen(leader);
    for (const [at, observer] of this.#observers.entries())
      await this.soon(`who looks at replica ${at} is told who leads`, () => {
        observer.compare(seen);
        return true;
      });
  }

  override async end(): Promise<void> {
    await Promise.all(this.#observers.map((observer) => observer.close()));
    await super.end();
  }

  /** What is not known yet of who leads, and of who waits, is learned from what is shown first. */
  protected override async compare(replica: Client): Promise<void> {
    const { model } = this;
    const page = (await replica.expect(200, 'GET', `/v1/elections/${this.name}`)) as ShownElection;
    const candidates = page.candidates.map(({ leaseId, value, preference, position }) => ({
      leaseId,
      value,
      preference,
      position,
    }));
    const expected = model.places.map(({ client, value, preference }, position) => ({
      leaseId: this.lease(client).leaseId,
      value,
      preference,
      position,
    }));
    expectShown(
      { candidates, candidateCount: page.candidateCount },
      { candidates: expected, candidateCount: expected.length },
    );
    for (const [i, place] of model.places.entries())
      model.isKnownAs(place, (page.candidates[i] as { candidateId: string }).candidateId);
    const { leader } = model;
    if (leader !== undefined && page.leader !== null) model.leads(leader, page.leader.fencingToken);
    expectShown(
      { leader: page.leader && seenLeader(page.leader) },
      { leader: leader === undefined ? null : this.#seen(leader) },
    );
  }

  #seen({ client, value, acknowledged, candidateId, fencingToken }: Candidate): SeenLeader {
    const { leaseId } = this.lease(client);
    return { candidateId: candidateId as string, leaseId, value, fencingToken: fencingToken as number, acknowledged };
  }

  async #observe(at: At): Promise<void> {
    const replica = this.site.replicas[at];
    this.#observers[at] = await (at === this.#streamAt
      ? ElectionObserver.byStream(replica, this.name)
      : ElectionObserver.byLongPoll(replica, this.name));
  }
}
