/** `/v1/elections`: the requests about elections, in the words of the contract. */
import { PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../../recipes/acquire.js';
import { acknowledge, proclaim, type LeaderRequest, type LeaderWritten } from '../../recipes/candidacy.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { ContenderView } from '../../recipes/describe.js';
import {
  checkLeader,
  describeElection,
  ElectionViews,
  listCandidates,
  listElections,
  type ElectionView,
} from '../../recipes/election-view.js';
import { campaign, resign, type Campaign } from '../../recipes/election.js';
import { etagOf, type LineObservers } from '../../recipes/line-observer.js';
import { endReason, instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { matchesEtag } from './etag.js';
import { lockHeld } from './lock-held.js';
import { holderStream } from './holder-stream.js';
import { leaseOf, namespaceOfReader, pageOfAllowed, pageTokenOf, positionPageOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

const KIND = 'election';

export function electionRoutes(context: Coordination, observers: LineObservers): Routes {
  const routes = new ElectionRoutes(context, observers);
  return {
    campaign: (exchange) => routes.campaign(exchange),
    proclaim: (exchange) => routes.proclaim(exchange),
    acknowledge: (exchange) => routes.acknowledge(exchange),
    resign: (exchange) => routes.resign(exchange),
    showElection: (exchange) => routes.show(exchange),
    watchElection: (exchange) => routes.watch(exchange),
    listCandidates: (exchange) => routes.listCandidates(exchange),
    listElections: (exchange) => routes.list(exchange),
    checkElection: (exchange) => routes.check(exchange),
  };
}

class ElectionRoutes {
  readonly #context: Coordination;
  readonly #observers: LineObservers;
  readonly #views: ElectionViews;

  constructor(context: Coordination, observers: LineObservers) {
    this.#context = context;
    this.#observers = observers;
    this.#views = new ElectionViews(context);
  }

  async campaign(exchange: Exchange): Promise<Answer> {
    const { value, waitMs = 0, keepPlace = true, ...body } = exchange.body as Partial<Schemas['CampaignRequest']>;
    const lease = await leaseOf(exchange, this.#context.leases);
    const request: Campaign = {
      name: nameOf(exchange),
      requestId: requestIdOf(exchange, body),
      waitMs,
      keepPlace,
      data: value,
      receivedAt: exchange.receivedAt,
      hardDeadline: exchange.deadline + waitMs,
      signal: exchange.signal,
    };
    return answerCampaign(request, lease, await campaign(this.#context, lease, request));
  }

  async proclaim(exchange: Exchange): Promise<Answer> {
    const request = await this.#candidacyOf(exchange);
    const { value } = exchange.body as Schemas['ProclaimRequest'];
    return answerLeader(request, await proclaim(this.#context, request, value));
  }

  async acknowledge(exchange: Exchange): Promise<Answer> {
    const request = await this.#candidacyOf(exchange);
    return answerLeader(request, await acknowledge(this.#context, request));
  }

  async resign(exchange: Exchange): Promise<Answer> {
    await resign(this.#context, await this.#candidacyOf(exchange));
    return { status: 204 };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const { waitMs = 0, consistency } = exchange.query as { waitMs?: number; consistency?: string };
    const known = exchange.headers['if-none-match'] as string | undefined; // node never makes a list of this header
    const isKnown = (etag: string): boolean => known !== undefined && matchesEtag(known, etag);
    const deadline = exchange.deadline + waitMs;
    if (waitMs > 0 && known !== undefined) {
      const { changed, etag } = await this.#untilChanged(exchange, namespace, isKnown, exchange.receivedAt + waitMs);
      // Without any state seen it is not known that nothing changed: ZooKeeper is asked once more, and may not answer.
      if (!changed && etag !== undefined) return { status: 304, headers: { ETag: etag } };
    }
    let election =
      consistency === 'stale'
        ? await describeElection(this.#context, namespace, name, deadline, true)
        : await this.#views.read(namespace, name, exchange.receivedAt, deadline);
    // The shared reading may have been begun before the change that this poll was woken by.
    if (waitMs > 0 && isKnown(etagOfElection(election)))
      election = await this.#views.read(namespace, name, performance.now(), deadline);
    const etag = etagOfElection(election);
    if (isKnown(etag)) return { status: 304, headers: { ETag: etag } };
    return { status: 200, body: showElection(name, election), headers: { ETag: etag } };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const directory = this.#context.layout.line(KIND, namespace, name);
    return holderStream(exchange, this.#observers, KIND, directory, ({ holders: [leader] }) => ({
      name,
      leader: describeLeader(leader),
    }));
  }

  async listCandidates(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const page = positionPageOf(exchange);
    const { items, next } = await listCandidates(this.#context, namespace, nameOf(exchange), page, exchange.deadline);
    const body: Schemas['CandidateList'] = {
      items: items.map((view) => describeCandidate(view, view.position)),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { items, next } = await listElections(
      this.#context,
      namespace,
      pageOfAllowed(exchange, namespace),
      exchange.deadline,
    );
    const body: Schemas['ElectionList'] = {
      items: items.map(({ name, leader, candidateCount }) => ({
        name,
        leader: describeLeader(leader),
        candidateCount,
      })),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  async check(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { fencingToken } = exchange.body as Schemas['CheckRequest'];
    const body: Schemas['CheckedToken'] = await checkLeader(
      this.#context,
      namespace,
      nameOf(exchange),
      fencingToken,
      exchange.deadline,
    );
    return { status: 200, body };
  }

  /** @returns whether it has, and the last ETag that was seen */
  async #untilChanged(
    exchange: Exchange,
    namespace: string,
    isKnown: (etag: string) => boolean,
    deadline: number,
  ): Promise<{ changed: boolean; etag: string | undefined }> {
    const directory = this.#context.layout.line(KIND, namespace, nameOf(exchange));
    let last: string | undefined;
    const observed = (etag: string): boolean => isKnown((last = etag));
    const changed = await this.#observers.changed(KIND, directory, observed, deadline, exchange.signal);
    if (changed !== undefined) return { changed: true, etag: last };
    if (endReason(exchange.signal) === 'draining')
      throw new PosternError('draining', 'This replica is shutting down; repeat the request.');
    return { changed: false, etag: last };
  }

  async #candidacyOf(exchange: Exchange): Promise<LeaderRequest> {
    const body = exchange.body as Schemas['CandidacyRequest'];
    return {
      lease: await leaseOf(exchange, this.#context.leases),
      name: nameOf(exchange),
      candidateId: body.candidateId,
      requestId: requestIdOf(exchange, body),
      deadline: exchange.deadline,
    };
  }
}

function answerCampaign({ name, requestId }: Campaign, lease: Lease, result: Granted | NotGranted): Answer {
  const { leaseId, ttlMs } = lease;
  if (result.held) {
    const body: Schemas['Elected'] = {
      name,
      elected: true,
      candidateId: result.holdId,
      fencingToken: result.fencingToken,
      requestId,
      waitedMs: result.waitedMs,
      alreadyElected: result.alreadyHeld,
      leaseId,
      ttlMs,
      expiresAt: instant(result.expiresAt),
    };
    return { status: 200, body, undelivered: result.undelivered };
  }
  switch (result.why) {
    case 'kept': {
      const position = Math.max(1, result.position);
      const candidateId = result.holdId as string;
      const body: Schemas['Standing'] = { name, elected: false, position, candidateId, requestId, leaseId, ttlMs };
      return { status: 202, body };
    }
    case 'draining':
      throw new PosternError(
        'draining',
        `This replica is shutting down. The place in the election "${name}" is kept; repeat the same request, another replica takes it up.`,
      );
    case 'client-gone':
    case 'rival':
      throw new PosternError('conflict', 'The client went away.');
    case 'refused':
      throw lockHeld({ kind: KIND, name }, result);
  }
}

function answerLeader({ name, lease }: LeaderRequest, written: LeaderWritten): Answer {
  const body: Schemas['LeaderWritten'] = {
    name,
    candidateId: written.candidateId,
    fencingToken: written.fencingToken,
    leaseId: lease.leaseId,
    ttlMs: lease.ttlMs,
    expiresAt: instant(written.expiresAt),
  };
  return { status: 200, body };
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}

function etagOfElection({ leader }: ElectionView): string {
  return etagOf(leader === undefined ? [] : [leader]);
}

function showElection(name: string, { leader, candidates, candidateCount }: ElectionView): Schemas['Election'] {
  return { name, leader: describeLeader(leader), candidates: candidates.map(describeCandidate), candidateCount };
}

function describeLeader(view: ContenderView | undefined): Schemas['Leader'] | null {
  if (view === undefined) return null;
  return {
    ...describeWho(view),
    fencingToken: view.fencingToken,
    since: instant(view.since),
    acknowledged: view.acknowledged ?? false,
  };
}

function describeCandidate(view: ContenderView, position: number): Schemas['Candidate'] {
  return { ...describeWho(view), position, since: instant(view.since) };
}

function describeWho({ external, holdId, leaseId, principal, label, data }: ContenderView) {
  const who = external
    ? { candidateId: null, leaseId: null, principal: null, label: null }
    : { candidateId: holdId, leaseId, principal, label };
  return { ...who, value: data ?? null, external };
}
