/** `/v1/groups`: the requests about groups and shares, in the words of the contract. */
import type { Coordination } from '../../recipes/coordination.js';
import type { MemberView } from '../../recipes/group-member.js';
import type { GroupObservers, GroupState } from '../../recipes/group-observer.js';
import { describeGroup, listGroups, listMembers, type GroupView } from '../../recipes/group-view.js';
import { joinGroup, leaveGroup } from '../../recipes/group.js';
import type { Memberships } from '../../recipes/membership.js';
import { SharedReadings } from '../../recipes/shared-readings.js';
import { readShares, type Shares } from '../../recipes/shares.js';
import { instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { checkDraining, longPollOf, notModified } from './long-poll.js';
import { stateStream } from './state-stream.js';
import { leaseOf, namespaceOf, namespaceOfReader, pageOf, pageOfAllowed, pageTokenOf } from './subject.js';

type Schemas = components['schemas'];

export function groupRoutes(context: Coordination, memberships: Memberships, observers: GroupObservers): Routes {
  const routes = new GroupRoutes(context, memberships, observers);
  return {
    joinGroup: (exchange) => routes.join(exchange),
    leaveGroup: (exchange) => routes.leave(exchange),
    showGroup: (exchange) => routes.show(exchange),
    watchGroup: (exchange) => routes.watch(exchange),
    listMembers: (exchange) => routes.listMembers(exchange),
    listGroups: (exchange) => routes.list(exchange),
    showShares: (exchange) => routes.shares(exchange),
  };
}

class GroupRoutes {
  readonly #context: Coordination;
  readonly #memberships: Memberships;
  readonly #observers: GroupObservers;
  readonly #views = new SharedReadings<GroupView>('the reading of the group');
  readonly #shares = new SharedReadings<Shares>('the reading of the shares');

  constructor(context: Coordination, memberships: Memberships, observers: GroupObservers) {
    this.#context = context;
    this.#memberships = memberships;
    this.#observers = observers;
  }

  async join(exchange: Exchange): Promise<Answer> {
    const { value } = exchange.body as Schemas['JoinRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const { name, member } = namesOf(exchange);
    const joined = await joinGroup(this.#context, this.#memberships, {
      lease,
      name,
      member,
      value,
      deadline: exchange.deadline,
    });
    const body: Schemas['JoinedGroup'] = {
      name,
      member,
      memberId: joined.memberId,
      fencingToken: joined.fencingToken,
      value: value ?? null,
      since: instant(joined.since),
      leaseId: lease.leaseId,
      ttlMs: lease.ttlMs,
      expiresAt: instant(joined.expiresAt),
    };
    return { status: joined.joined ? 201 : 200, body };
  }

  async leave(exchange: Exchange): Promise<Answer> {
    const lease = await leaseOf(exchange, this.#context.leases);
    const request = { lease, ...namesOf(exchange), deadline: exchange.deadline };
    await leaveGroup(this.#context, this.#memberships, request);
    return { status: 204 };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { name } = namesOf(exchange);
    const directory = this.#context.layout.group(namespace, name);
    const { waitMs, waitsForChange, isKnown } = longPollOf(exchange);
    const deadline = exchange.deadline + waitMs;
    if (waitsForChange) {
      let last: string | undefined;
      const changed = await this.#observers.until(
        directory,
        ({ etag }) => !isKnown((last = etag)),
        exchange.receivedAt + waitMs,
        exchange.signal,
      );
      if (changed === undefined) checkDraining(exchange);
      // Without any state seen it is not known that nothing changed: ZooKeeper is asked once more, and may not answer.
      if (changed === undefined && last !== undefined) return notModified(last);
    }
    const read = (since: number): Promise<GroupView> =>
      this.#views.read(directory, since, deadline, (until) => describeGroup(this.#context, directory, until));
    const isStale = (exchange.query as { consistency?: string }).consistency === 'stale';
    let group = isStale
      ? await describeGroup(this.#context, directory, deadline, true)
      : await read(exchange.receivedAt);
    // The shared reading may have been begun before the change that this poll was woken by.
    if (waitsForChange && isKnown(group.etag)) group = await read(performance.now());
    if (isKnown(group.etag)) return notModified(group.etag);
    return { status: 200, body: describe(name, group), headers: { ETag: group.etag } };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { name } = namesOf(exchange);
    const directory = this.#context.layout.group(namespace, name);
    return stateStream<GroupState>(
      exchange,
      (subscriber) => this.#observers.subscribe(directory, subscriber),
      (state) => describe(name, state),
    );
  }

  async listMembers(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const directory = this.#context.layout.group(namespace, namesOf(exchange).name);
    const { items, next } = await listMembers(this.#context, directory, pageOf(exchange), exchange.deadline);
    const body: Schemas['MemberList'] = { items: items.map(describeMember), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = namespaceOf(exchange, 'read');
    const { items, next } = await listGroups(
      this.#context,
      namespace,
      pageOfAllowed(exchange, namespace),
      exchange.deadline,
    );
    const body: Schemas['GroupList'] = { items, ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async shares(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { name } = namesOf(exchange);
    const { of } = exchange.query as { of: number };
    const { layout } = this.#context;
    const { waitMs, waitsForChange, isKnown } = longPollOf(exchange);
    const deadline = exchange.deadline + waitMs;
    const read = (since: number): Promise<Shares> =>
      this.#shares.read(layout.shares(namespace, name, of), since, deadline, (until) =>
        readShares(this.#context, namespace, name, of, until),
      );
    let shares = await read(exchange.receivedAt);
    let seen: string | undefined;
    while (waitsForChange && isKnown(etagOfShares(shares))) {
      const { membership } = shares;
      // An observer that has not heard of the latest change yet shows an older membership: that one is seen once.
      const changed = await this.#observers.until(
        layout.group(namespace, name),
        (state) => state.membership !== membership && state.etag !== seen,
        exchange.receivedAt + waitMs,
        exchange.signal,
      );
      if (changed === undefined) checkDraining(exchange);
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
