/** `/v1/elections`: the requests about elections, in the words of the contract. */
import { PosternError } from '../../errors.js';
import { asShown } from '../../json-text.js';
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../../recipes/line/acquire.js';
import { acknowledge, proclaim, type LeaderRequest, type LeaderWritten } from '../../recipes/election/candidacy.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { ContenderView } from '../../recipes/line/describe.js';
import {
  checkLeader,
  describeElectionStale,
  listCandidates,
  listElections,
  type ElectionView,
} from '../../recipes/election/view.js';
import { campaign, campaignWithLease, resign, type Campaign } from '../../recipes/election/election.js';
import { transfer } from '../../recipes/election/transfer.js';
import { PLACE_KEY } from '../../recipes/line-page.js';
import { etagOf, type HolderState, type HolderObservers, type LineSubject } from '../../recipes/line/observer.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { lockHeld } from './shared/lock-held.js';
import { checkCredential } from './shared/long-poll.js';
import { breakOne, showNodes } from './shared/nodes.js';
import { newLeaseOf } from './shared/one-call.js';
import { revokeHolds } from './shared/revoke.js';
import type { Building } from './shared/serving.js';
import { StateRoutes } from './shared/state-routes.js';
import { leaseOf, namespaceOf, pageOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';
import { drainingInPlace } from './shared/wait-ended.js';

type Schemas = components['schemas'];

const KIND = 'election';

export function electionRoutes({ watchables, context, recipes: { line } }: Building): Routes {
  const routes = new ElectionRoutes(context, line.observers);
  watchables.set('election', routes.state);
  return {
    campaign: (exchange) => routes.campaign(exchange),
    proclaim: (exchange) => routes.proclaim(exchange),
    acknowledge: (exchange) => routes.acknowledge(exchange),
    resign: (exchange) => routes.resign(exchange),
    revokeElection: (exchange) => revokeHolds(context, KIND, exchange),
    transferElection: (exchange) => routes.transfer(exchange),
    listElectionNodes: (exchange) => showNodes(context, KIND, exchange),
    breakElection: (exchange) => breakOne(context, KIND, exchange),
    showElection: (exchange) => routes.state.show(exchange),
    watchElection: (exchange) => routes.state.watch(exchange),
    listCandidates: (exchange) => routes.listCandidates(exchange),
    listElections: (exchange) => routes.list(exchange),
    checkElection: (exchange) => routes.check(exchange),
  };
}

interface NamedElection extends LineSubject {
  namespace: string;
  name: string;
}

class ElectionRoutes {
  readonly state: StateRoutes<NamedElection, HolderState, ElectionView & { etag: string }>;
  readonly #context: Coordination;

  constructor(context: Coordination, observers: HolderObservers) {
    this.#context = context;
    this.state = new StateRoutes(context, {
      what: 'the election',
      observers,
      subject: (namespace, name): NamedElection => ({
        kind: KIND,
        namespace,
        name,
        path: context.layout.line(KIND, namespace, name),
      }),
      read: async ({ path }, zk) => {
        const view = await describeElectionStale(context, zk, path);
        return { ...view, etag: etagOf(view.candidates.slice(0, 1)) };
      },
      etagOf: ({ etag }) => etag,
      show: (election, { name }) => ({ body: showElection(name, election) }),
      event: ({ holders: [leader] }, { name }) => ({ name, leader: describeLeader(leader) }),
      inUse: ({ holders }) => holders.length > 0,
    });
  }

  async campaign(exchange: Exchange): Promise<Answer> {
    const {
      value,
      preference = 0,
      waitMs = 0,
      keepPlace = true,
      ...body
    } = exchange.body as Partial<Schemas['CampaignRequest']>;
    delete (exchange.body as Partial<Schemas['CampaignRequest']>).value; // else the exchange would keep it
    const request: Campaign = {
      name: nameOf(exchange),
      requestId: requestIdOf(exchange, body),
      waitMs,
      keepPlace,
      data: asShown(value),
      preference,
      receivedAt: exchange.receivedAt,
      hardDeadline: exchange.deadline + waitMs,
      requester: exchange.requester,
    };
    if (body.lease === undefined) {
      const lease = await leaseOf(exchange, this.#context.leases);
      return answerCampaign(request, { lease }, await campaign(this.#context, lease, request), exchange);
    }
    const newLease = newLeaseOf(exchange, body, body.lease);
    const { result, ...granted } = await campaignWithLease(this.#context, newLease, request);
    return answerCampaign(request, granted, result, exchange);
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

  async transfer(exchange: Exchange): Promise<Answer> {
    const { candidateId, reason, graceMs = 0 } = exchange.body as Schemas['TransferRequest'];
    const { leads, breakAt, overtaken } = await transfer(this.#context, {
      namespace: await namespaceOf(exchange, this.#context.leases, 'admin'),
      name: nameOf(exchange),
      candidateId,
      reason,
      graceMs,
      deadline: exchange.deadline,
      requester: exchange.requester,
    });
    const body: Schemas['Transferred'] = {
      candidateId,
      leads,
      ...(breakAt === undefined ? {} : { breakAt: instant(breakAt) }),
      overtaken,
    };
    return { status: 200, body };
  }

  async listCandidates(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const page = pageOf(exchange, PLACE_KEY);
    const { control, layout } = this.#context;
    const zk = control.until(exchange.deadline);
    const { items, next } = await listCandidates(
      this.#context,
      zk,
      layout.line(KIND, namespace, nameOf(exchange)),
      page,
    );
    const body: Schemas['CandidateList'] = {
      items: items.map((view) => describeCandidate(view, view.position)),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { control, layout } = this.#context;
    const zk = control.until(exchange.deadline);
    const page = pageOfAllowed(exchange, namespace);
    const { items, next } = await listElections(this.#context, zk, layout.lines(KIND, namespace), page);
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
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { fencingToken } = exchange.body as Schemas['CheckRequest'];
    const { control, layout } = this.#context;
    const directory = layout.line(KIND, namespace, nameOf(exchange));
    const zk = control.until(exchange.deadline);
    const body: Schemas['CheckedToken'] = await checkLeader(this.#context, zk, directory, fencingToken);
    return { status: 200, body };
  }

  async #candidacyOf(exchange: Exchange): Promise<LeaderRequest> {
    const body = exchange.body as Schemas['CandidacyRequest'];
    return {
      lease: await leaseOf(exchange, this.#context.leases),
      name: nameOf(exchange),
      candidateId: body.candidateId,
      requestId: requestIdOf(exchange, body),
      deadline: exchange.deadline,
      requester: exchange.requester,
    };
  }
}

function answerCampaign(
  { name, requestId }: Campaign,
  { lease: { leaseId, ttlMs }, leaseToken }: { lease: Lease; leaseToken?: string },
  result: Granted | NotGranted,
  exchange: Exchange,
): Answer {
  const token = leaseToken === undefined ? {} : { leaseToken };
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
      ...token,
    };
    return { status: 200, body, undelivered: result.undelivered };
  }
  switch (result.why) {
    case 'kept': {
      checkCredential(exchange, 'unknown'); // the candidate stays for as long as the lease
      const position = Math.max(1, result.position);
      const candidateId = result.holdId as string;
      const where = { name, elected: false, position } as const;
      const body: Schemas['Standing'] = { ...where, candidateId, requestId, leaseId, ttlMs, ...token };
      return { status: 202, body };
    }
    case 'draining':
      throw drainingInPlace(`place in the election "${name}"`);
    case 'client-gone':
    case 'rival':
      throw new PosternError('conflict', 'The client went away.');
    case 'refused':
      throw lockHeld({ kind: KIND, name }, result, leaseId);
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
  return { ...describeWho(view), preference: view.preference ?? 0, position, since: instant(view.since) };
}

function describeWho({ external, holdId, leaseId, principal, label, data }: ContenderView) {
  const who = external
    ? { candidateId: null, leaseId: null, principal: null, label: null }
    : { candidateId: holdId, leaseId, principal, label };
  return { ...who, value: data ?? null, external };
}
