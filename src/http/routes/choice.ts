/**
 * Where there are several ensembles, each has all the routes of recipes, and a request takes those of the ensemble on
 * which its namespace lies. The namespace is settled here, so that no handler finds another one: the one that is named,
 * else that of the lease whose token is sent, else `default`. A batch of heartbeats is the only request that may be
 * about many namespaces: each of its tokens is looked after on its own ensemble.
 */
import { isPosternError } from '../../errors.js';
import { DEFAULT_NAMESPACE } from '../../leases/layout.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { Exchange, Handler, Routes } from '../frame/exchange.js';
import { heartbeatMany } from './heartbeats.js';
import { longPollOf } from './shared/long-poll.js';

/** The contract has them named, or in `default`: a lease token says nothing about their namespace. */
export const WITHOUT_LEASE: ReadonlySet<string> = new Set([
  ...['createLease', 'watchMany', 'showContention'],
  ...['listReservations', 'reserveLock', 'extendReservation', 'releaseReservation'],
  ...['preReboot', 'steadyState'],
  ...['readTerraformState', 'writeTerraformState', 'deleteTerraformState'],
  ...['lockTerraformState', 'unlockTerraformState'],
]);

/** An ensemble, as far as requests see it. */
export interface Home {
  readonly routes: Routes;
  readonly context: Coordination;
}

export interface Asked {
  readonly namespace: string;
  /** It changes nothing, and prolongs nothing. */
  readonly isRead: boolean;
}

export interface Homes {
  /** Any of them: all have the same operations. */
  readonly first: Home;
  /**
   * Where the namespace is served.
   * @throws PosternError `zookeeper-unavailable` if that is nowhere now, or if it is closed and more is asked than a
   *   read
   */
  homeOf(asked: Asked, deadline: number): Promise<Home>;
  /**
   * Does something there.
   * @throws PosternError as `homeOf`; `zookeeper-unavailable` for a read and `outcome-unknown` for anything else if the
   *   namespace is closed or moves meanwhile, whatever becomes of the work; what `work` throws
   */
  serve<T>(exchange: Exchange, asked: Asked, work: (home: Home) => Promise<T>): Promise<T>;
  /**
   * To be done after a read, whatever its answer: what has moved is withdrawn before this returns.
   * @throws PosternError as `homeOf`
   * @throws NoReplyError if that is not known by the deadline
   */
  confirmRead(namespace: string, deadline: number): Promise<void>;
  /** The namespace of a lease token that was opened here lately. */
  namespaceKnown(token: string): string | undefined;
  /**
   * The namespace of a lease token of this principal.
   * @throws PosternError `invalid-lease-token` if it opens nowhere or is another's, `zookeeper-unavailable` if it might
   *   open at an ensemble that did not answer
   */
  namespaceOf(token: string, principal: string, deadline: number): Promise<string>;
  /** Without a promise and without a check: the ensemble that may know leases of this namespace. */
  likelyHomeOf(namespace: string): Home | undefined;
}

/** @param reads the operations that change nothing, by id */
export function chosenRoutes(homes: Homes, reads: ReadonlySet<string>): Routes {
  const chosen = Object.keys(homes.first.routes).map((id): [string, Handler] => [
    id,
    choosing(id, homes, reads.has(id)),
  ]);
  return { ...Object.fromEntries(chosen), heartbeatLeases: heartbeatMany(leaseHomesOf(homes)) };
}

function choosing(id: string, homes: Homes, isOfRead: boolean): Handler {
  return async (exchange) => {
    const namespace = exchange.namespace ?? (await namespaceOf(id, homes, exchange));
    // Before anything is said of its ensemble.
    if (exchange.namespace === undefined) exchange.settleNamespace(namespace);
    // Whatever is done with a lease prolongs it.
    const isRead = isOfRead && exchange.leaseToken === undefined;
    try {
      const asked = { namespace, isRead };
      const answer = await homes.serve(exchange, asked, ({ routes }) => {
        const done = (routes[id] as Handler)(exchange);
        if (!isRead) return done;
        return done.finally(() => homes.confirmRead(namespace, exchange.deadline + longPollOf(exchange).waitMs));
      });
      if (!('events' in answer)) return answer;
      return { ...answer, events: (sink) => homes.serve(exchange, asked, () => answer.events(sink)) };
    } catch (error) {
      if (isPosternError(error, 'invalid-lease-token')) await sayWhose(homes, exchange);
      throw error;
    }
  };
}

/**
 * A token that does not open where the request's namespace lies may be one of another namespace. Only ensembles that
 * need not be asked are looked at: one that is away does not hold up a request that is not about it.
 * @throws PosternError that says so, as where there is one ensemble
 */
async function sayWhose(homes: Homes, { leaseToken, principal, namespace, deadline }: Exchange): Promise<void> {
  if (leaseToken === undefined) return;
  const own = await homes.namespaceOf(leaseToken, principal.id, performance.now()).catch((error: unknown) => {
    if (isPosternError(error, 'invalid-lease-token')) throw error;
    return undefined;
  });
  if (own === undefined || own === namespace) return;
  await homes.likelyHomeOf(own)?.context.leases.open(leaseToken, { principal: principal.id, namespace }, deadline);
}

async function namespaceOf(id: string, homes: Homes, { leaseToken, principal, deadline }: Exchange): Promise<string> {
  if (leaseToken === undefined || WITHOUT_LEASE.has(id)) return DEFAULT_NAMESPACE;
  return homes.namespaceOf(leaseToken, principal.id, deadline);
}

function leaseHomesOf(homes: Homes): Parameters<typeof heartbeatMany>[0] {
  return {
    known(token) {
      const namespace = homes.namespaceKnown(token);
      return namespace === undefined ? undefined : homes.likelyHomeOf(namespace)?.context;
    },
    async of(token, exchange) {
      const { namespace, principal, deadline } = exchange;
      const at = namespace ?? (await homes.namespaceOf(token, principal.id, deadline));
      exchange.authorize('use', at);
      return (await homes.homeOf({ namespace: at, isRead: false }, deadline)).context;
    },
  };
}
