/** `/v1/groups`: the requests about groups and shares, in the words of the contract. */
import type { Lease } from '../../../leases/lease.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { MemberView } from '../../../recipes/membership/member.js';
import type { GroupObservers, GroupState } from '../../../recipes/group/observer.js';
import type { GroupView } from '../../../recipes/group/seen-members.js';
import { describeGroupStale, listGroups, listMembers } from '../../../recipes/group/view.js';
import { joinGroup, joinGroupWithLease, leaveGroup, type Join, type Joined } from '../../../recipes/group/group.js';
import type { Memberships } from '../../../recipes/membership/membership.js';
import { SharedReadings } from '../../../recipes/observing/shared-readings.js';
import { readShares, type Shares } from '../../../recipes/group/shares.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange, Routes } from '../../frame/exchange.js';
import { checkEnded, longPollOf, notModified } from '../shared/long-poll.js';
import { newLeaseOf } from '../shared/one-call.js';
import type { Building } from '../shared/serving.js';
import { named, StateRoutes, type Named } from '../shared/state-routes.js';
import { leaseOf, namespaceOf, pageOf, pageOfAllowed, pageTokenOf, requestIdOf } from '../shared/subject.js';

type Schemas = components['schemas'];

export function groupRoutes({ watchables, context, recipes: { group } }: Building): Routes {
  const routes = new GroupRoutes(context, group.memberships, group.observers);
  watchables.set('group', routes.state);
  return {
    joinGroup: (exchange) => routes.join(exchange),
    leaveGroup: (exchange) => routes.leave(exchange),
    showGroup: (exchange) => routes.state.show(exchange),
    watchGroup: (exchange) => routes.state.watch(exchange),
    listMembers: (exchange) => routes.listMembers(exchange),
    listGroups: (exchange) => routes.list(exchange),
    showShares: (exchange) => routes.shares(exchange),
  };
}

class GroupRoutes {
  readonly state: StateRoutes<Named, GroupState, GroupView>;
  readonly #context: Coordination;
  readonly #memberships: Memberships;
  readonly #observers: GroupObservers;
  readonly #shares = new SharedReadings<Shares>('the reading of the shares');

  constructor(context: Coordination, memberships: Memberships, observers: GroupObservers) {
    this.#context = context;
    this.#memberships = memberships;
    this.#observers = observers;
    this.state = new StateRoutes(context, {
      what: 'the group',
      observers,
      subject: named((namespace, name) => context.layout.group(namespace, name)),
      read: ({ path }, zk) => describeGroupStale(zk, context.control.largeReads, path),
      etagOf: ({ etag }) => etag,
      show: (group, { name }) => ({ body: describe(name, group) }),
      event: (group, { name }) => describe(name, group),
      inUse: ({ memberCount }) => memberCount > 0,
    });
  }

  async join(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['JoinRequest'];
    const { deadline, requester } = exchange;
    const requestId = requestIdOf(exchange, body);
    const join = { ...namesOf(exchange), value: body.value, deadline, requester };
    if (body.lease === undefined) {
      const lease = await leaseOf(exchange, this.#context.leases);
      const joined = await joinGroup(this.#context, this.#memberships, { ...join, lease });
      return answerJoin(join, { lease }, joined);
    }
    const newLease = newLeaseOf(exchange, body, body.lease);
    const made = await joinGroupWithLease(this.#context, this.#memberships, newLease, { ...join, requestId });
    return answerJoin(join, made, made.result);
  }

  async leave(exchange: Exchange): Promise<Answer> {
    const lease = await leaseOf(exchange, this.#context.leases);
    const { deadline, requester } = exchange;
    const request = { lease, ...namesOf(exchange), deadline, requester };
    await leaveGroup(this.#context, this.#memberships, request);
    return { status: 204 };
  }

  async listMembers(exchange: Exchange): Promise<Answer> {
    const { path } = await this.state.subjectOf(exchange);
    const zk = this.#context.control.until(exchange.deadline);
    const { items, next } = await listMembers(zk, this.#context.control.largeReads, path, pageOf(exchange));
    const body: Schemas['MemberList'] = { items: items.map(describeMember), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'read');
    const { control, layout } = this.#context;
    const groups = layout.groups(namespace);
    const zk = control.until(exchange.deadline);
    const { items, next } = await listGroups(zk, groups, pageOfAllowed(exchange, namespace));
    const body: Schemas['GroupList'] = { items, ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async shares(exchange: Exchange): Promise<Answer> {
    // The first caller after a change divides anew, which is a write.
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
    const { name } = namesOf(exchange);
    const { of } = exchange.query as { of: number };
    const { control, layout } = this.#context;
    const path = layout.shares(namespace, name, of);
    const { waitMs, waits, isKnown } = longPollOf(exchange);
    const deadline = exchange.deadline + waitMs;
    const read = (since: number): Promise<Shares> =>
      this.#shares.read(path, since, deadline, (until) =>
        readShares(control.until(until), layout.group(namespace, name), path, of),
      );
    let shares = await read(exchange.receivedAt);
    let seen: string | undefined;
    while (waits && isKnown(etagOfShares(shares))) {
      const { membership } = shares;
      // An observer that has not heard of the latest change shows an older membership, once.
      const changed = await this.#observers.until(
        { path: layout.group(namespace, name) },
        (state) => state.membership !== membership && state.etag !== seen,
        exchange.receivedAt + waitMs,
        exchange.signal,
      );
      if (changed === undefined) checkEnded(exchange);
      if (changed === undefined) break;
      seen = changed.etag;
      shares = await read(performance.now());
    }
    const etag = etagOfShares(shares);
    if (isKnown(etag)) return notModified(etag);
    const body: Schemas['Shares'] = {
      name,
      of,
      version: shares.version,
      memberCount: shares.memberCount,
      shares: shares.shares,
    };
    return { status: 200, body, headers: { ETag: etag } };
  }
}

/** @param granted with the token of a lease that was made in the same request */
function answerJoin(
  { name, member, value }: Pick<Join, 'name' | 'member' | 'value'>,
  { lease: { leaseId, ttlMs }, leaseToken }: { lease: Lease; leaseToken?: string },
  { memberId, fencingToken, since, joined, expiresAt }: Joined,
): Answer {
  const body: Schemas['JoinedGroup'] = {
    name,
    member,
    memberId,
    fencingToken,
    value: value ?? null,
    since: instant(since),
    leaseId,
    ttlMs,
    expiresAt: instant(expiresAt),
    ...(leaseToken !== undefined && { leaseToken }),
  };
  return { status: joined ? 201 : 200, body };
}

function namesOf({ params }: Exchange): { name: string; member: string } {
  return { name: params['name'] as string, member: params['member'] as string };
}

function etagOfShares({ version }: Shares): string {
  return `"${version}"`;
}

function describe(name: string, { members, memberCount }: GroupView): Schemas['Group'] {
  return { name, members: members.map(describeMember), memberCount };
}

function describeMember(view: MemberView): Schemas['Member'] {
  const { external, member, memberId, leaseId, principal, label, value, fencingToken, since } = view;
  const who = external ? { leaseId: null, principal: null, label: null } : { leaseId, principal, label };
  return { member, memberId, ...who, value: value ?? null, fencingToken, since: instant(since), external };
}
