/** Heartbeats, of one lease and of many, in the words of the contract. */
import { PosternError } from '../../errors.js';
import { heartbeatMs, type Caller, type OpenedLease } from '../../leases/leases.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { LossReason } from '../../recipes/lease-view/events.js';
import type { OwnHold } from '../../recipes/lease-view/holds.js';
import { lossOf, readNotices, type Notice } from '../../recipes/line/revocation/record.js';
import { instant } from '../../time.js';
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

/**
 * Heartbeats are never refused, but tokens that do not open count as requests of their principal. Above the rate limit,
 * tokens that this replica has not opened before are not even tried, or the limit would save nothing.
 */
async function openAll(
  homes: LeaseHomes,
  exchange: Exchange,
  tokens: readonly string[],
): Promise<(OpenedThere | Schemas['Problem'])[]> {
  const caller = callerOf(exchange);
  const problem = problemsOf(exchange);
  const all: (OpenedThere | Schemas['Problem'])[] = [];
  let refused: Schemas['Problem'] | undefined;
  for (const token of tokens) {
    try {
      if (refused !== undefined && homes.known(token)?.leases.openKnown(token, caller) === undefined) all.push(refused);
      else {
        const context = await homes.of(token, exchange);
        all.push({ context, opened: await open(context, exchange, token) });
      }
    } catch (error) {
      all.push(problem(error));
      if (error instanceof PosternError && error.code === 'invalid-lease-token') refused ??= beyondLimit(exchange);
    }
  }
  return all;
}

function beyondLimit(exchange: Exchange): Schemas['Problem'] | undefined {
  try {
    exchange.countRequest();
    return undefined;
  } catch (error) {
    return problemsOf(exchange)(error);
  }
}

async function heartbeatAll(
  exchange: Exchange,
  all: readonly (OpenedThere | Schemas['Problem'])[],
): Promise<Schemas['HeartbeatItem'][]> {
  const problem = problemsOf(exchange);
  // One answer for all: the lease with the least time must not wait for one whose server is silent.
  const shortestMs = Math.min(...all.map((each) => (isOpened(each) ? each.opened.lease.ttlMs : Infinity)));
  const deadline = Math.min(exchange.deadline, performance.now() + heartbeatMs(shortestMs));
  return Promise.all(
    all.map(async (each): Promise<Schemas['HeartbeatItem']> => {
      if (!isOpened(each)) return each;
      try {
        return { status: 200, ...(await heartbeat(each.context, each.opened, deadline)) };
      } catch (error) {
        return problem(error);
      }
    }),
  );
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
