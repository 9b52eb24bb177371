/** Heartbeats, of one lease and of many, in the words of the contract. */
import { setImmediate } from 'node:timers/promises';
import { PosternError } from '../../errors.js';
import { heartbeatMs, type Caller, type OpenedLease } from '../../leases/leases.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { LossReason } from '../../recipes/lease-view/events.js';
import type { OwnHold } from '../../recipes/lease-view/own-hold.js';
import { lossOf, readNotices, type Notice } from '../../recipes/line/revocation/record.js';
import { instant, within } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Handler } from '../frame/exchange.js';
import { problemOf } from '../frame/problem.js';
import { leaseTokenOf } from './shared/subject.js';

type Schemas = components['schemas'];

export async function heartbeatLease(context: Coordination, exchange: Exchange): Promise<Answer> {
  const opened = await open(context, exchange, leaseTokenOf(exchange));
  return { status: 200, body: await heartbeat(context, opened, exchange.deadline) };
}

/** Where leases lie: one place, unless there are several ensembles. */
export interface LeaseHomes {
  /** Of a token that was opened here lately. */
  known(token: string): Coordination | undefined;
  /** @throws PosternError if nothing can be done there now */
  of(token: string, exchange: Exchange): Coordination | Promise<Coordination>;
}

/** A token that was opened, and where. */
interface OpenedThere {
  readonly context: Coordination;
  readonly opened: OpenedLease;
}

export function heartbeatMany(homes: LeaseHomes): Handler {
  return async (exchange) => {
    const { leaseTokens } = exchange.body as Schemas['HeartbeatLeasesRequest'];
    const distinct = [...new Set(leaseTokens)];
    const items = await heartbeatAll(exchange, await openAll(homes, exchange, distinct));
    const byToken = new Map(distinct.map((token, i) => [token, items[i] as Schemas['HeartbeatItem']]));
    const body: Schemas['HeartbeatList'] = {
      items: leaseTokens.map((token) => byToken.get(token) as Schemas['HeartbeatItem']),
    };
    return { status: 200, body };
  };
}

/** Tokens that are being opened, in their order, and those that have been. */
interface Openings {
  readonly all: readonly Promise<OpenedThere | Schemas['Problem']>[];
  readonly opened: readonly OpenedThere[];
}

/**
 * Heartbeats are never refused, but tokens that do not open count as requests of their principal. Above the rate limit,
 * tokens that this replica has not opened before are not even tried, or the limit would save nothing. So they are
 * opened one after the other; only one that has to ask its ensemble does not hold up those behind it.
 */
async function openAll(homes: LeaseHomes, exchange: Exchange, tokens: readonly string[]): Promise<Openings> {
  const caller = callerOf(exchange);
  const problem = problemsOf(exchange);
  const all: Promise<OpenedThere | Schemas['Problem']>[] = [];
  const opened: OpenedThere[] = [];
  let refused: Schemas['Problem'] | undefined;
  const openOne = async (token: string): Promise<OpenedThere | Schemas['Problem']> => {
    try {
      if (refused !== undefined && homes.known(token)?.leases.openKnown(token, caller) === undefined) return refused;
      const context = await homes.of(token, exchange);
      const one = { context, opened: await open(context, exchange, token) };
      opened.push(one);
      return one;
    } catch (error) {
      if (error instanceof PosternError && error.code === 'invalid-lease-token') refused ??= beyondLimit(exchange);
      return problem(error);
    }
  };
  for (const token of tokens) {
    const opening = openOne(token);
    all.push(opening);
    // What asks nobody is done before the event loop turns.
    await Promise.race([opening, setImmediate()]);
  }
  return { all, opened };
}

function beyondLimit(exchange: Exchange): Schemas['Problem'] | undefined {
  try {
    exchange.countRequest();
    return undefined;
  } catch (error) {
    return problemsOf(exchange)(error);
  }
}

async function heartbeatAll(exchange: Exchange, { all, opened }: Openings): Promise<Schemas['HeartbeatItem'][]> {
  const problem = problemsOf(exchange);
  if (opened.length === 0) await firstOpened(all);
  // One answer for all: the lease with the least time must not wait for one whose server is silent.
  const shortestMs = Math.min(...opened.map(({ opened: { lease } }) => lease.ttlMs));
  const deadline = Math.min(exchange.deadline, performance.now() + heartbeatMs(shortestMs));
  return Promise.all(
    all.map(async (opening): Promise<Schemas['HeartbeatItem']> => {
      try {
        const each = await within(opening, deadline - performance.now(), notOpened);
        return isOpened(each) ? { status: 200, ...(await heartbeat(each.context, each.opened, deadline)) } : each;
      } catch (error) {
        return problem(error);
      }
    }),
  );
}

function notOpened(): PosternError {
  const why = 'ZooKeeper did not answer in time with what opens the lease token. Nothing was done.';
  return new PosternError('zookeeper-unavailable', why);
}

/** Resolves when one of them is opened, or none of them can be. */
async function firstOpened(all: Openings['all']): Promise<void> {
  await new Promise<void>((resolve) => {
    const each = all.map(async (opening) => {
      if (isOpened(await opening)) resolve();
    });
    void Promise.all(each).then(() => resolve());
  });
}

function problemsOf({ traceId }: Exchange): (error: unknown) => Schemas['Problem'] {
  return (error) => problemOf(error, traceId).body as Schemas['Problem'];
}

function callerOf({ principal, namespace }: Exchange): Caller {
  return { principal: principal.id, namespace };
}

function isOpened(item: OpenedThere | Schemas['Problem']): item is OpenedThere {
  return 'opened' in item;
}

async function open({ leases }: Coordination, exchange: Exchange, token: string): Promise<OpenedLease> {
  const opened = await leases.open(token, callerOf(exchange), exchange.deadline);
  exchange.authorize('use', opened.lease.namespace);
  return opened;
}

async function heartbeat(
  { leases, layout }: Coordination,
  opened: OpenedLease,
  deadline: number,
): Promise<Schemas['Heartbeat']> {
  const { leaseId } = opened.lease;
  const { lease, expiresAt, notices, leaseToken } = await leases.heartbeatAndRead(
    opened,
    deadline,
    async (session, synced) =>
      (await session.isAbsent(layout.revocationsOf(leaseId), synced, deadline))
        ? []
        : readNotices(session.until(deadline), layout, leaseId),
  );
  return {
    leaseId: lease.leaseId,
    ttlMs: lease.ttlMs,
    expiresAt: instant(expiresAt),
    revocations: notices.filter(({ state }) => state === 'pending').map(describeRevocation),
    lost: notices.filter(({ state }) => state === 'broken').map((notice) => describeLost(notice, lossOf(notice))),
    ...(leaseToken === undefined ? {} : { leaseToken }),
  };
}

export function describeRevocation({ kind, name, holdId, reason, breakAt }: Notice): Schemas['Revocation'] {
  return {
    kind,
    name,
    holdId,
    ...(reason === undefined ? {} : { reason }),
    ...(breakAt === undefined ? {} : { breakAt: instant(breakAt) }),
  };
}

export function describeLost(
  { kind, name, member, holdId }: Pick<OwnHold, 'kind' | 'name' | 'member' | 'holdId'>,
  reason: LossReason,
): Schemas['LostHold'] {
  return { kind, name, ...(member === undefined ? {} : { member }), holdId, reason };
}
