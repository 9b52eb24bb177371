/** The foundation of all recipes: the control session, the sessions of leases, and what is cached of both. */
import type { Config } from '../config.js';
import { AttachedSessions } from '../leases/attached-sessions.js';
import { FencingFloor, type FencingFloorOptions } from '../leases/fencing-floor.js';
import { LeaseKeys } from '../leases/keys.js';
import { Layout } from '../leases/layout.js';
import { isAlive } from '../leases/lease-life.js';
import { Leases } from '../leases/leases.js';
import { PageTokens } from '../leases/page-token.js';
import { ReservationTokens } from '../leases/reservation-token.js';
import { SessionBounds } from '../leases/session-bounds.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Coordination } from '../recipes/coordination.js';
import { LostHolds } from '../recipes/line/delay/lost-holds.js';
import { Cleanup } from '../recipes/line/cleanup.js';
import { GrantedHolds } from '../recipes/line/granted-holds.js';
import { FreeLines } from '../recipes/line/known-free.js';
import { Lines } from '../recipes/line/line.js';
import { boundNames } from '../recipes/name-bounds.js';
import type { Contention } from '../recipes/waiting/contention.js';
import type { Clock } from '../time.js';
import { ControlSession } from '../zookeeper/control-session.js';
import { DataFormat } from './data-format.js';
import type { NumberedEnsemble } from './ensemble.js';

export interface FoundationOptions {
  /** This process's share of the limits. */
  readonly config: Config;
  readonly ensemble: NumberedEnsemble;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Where requests of this process wait. */
  readonly contention: Contention;
  /** As in `Coordination`. */
  readonly isOpen: (namespace: string) => boolean;
  /** What says the floor of fencing tokens. */
  readonly floorSetting: string;
  /** As in `FencingFloorOptions`. */
  readonly onRegistered: FencingFloorOptions['onRegistered'];
  /** Timeout of the control session, ms. */
  readonly sessionTimeoutMs: number;
}

export interface Foundation {
  readonly context: Coordination;
  readonly sessions: AttachedSessions;
  readonly bounds: SessionBounds;
  readonly keys: LeaseKeys;
  readonly floor: FencingFloor;
  readonly format: DataFormat;
}

/** The caller starts the control session. */
export function foundationOf(options: FoundationOptions): Foundation {
  const { config, ensemble, metrics, clock, contention, isOpen, onRegistered, logger } = options;
  const { maxLeasesPerPrincipal, maxReadBytesAtOnce } = config;
  const control = new ControlSession(ensemble, { sessionTimeoutMs: options.sessionTimeoutMs, maxReadBytesAtOnce });
  const layout = new Layout(config.root);
  const sessions = sessionsOf(control, layout, options);
  const bounds = new SessionBounds(sessions);
  const { zxids } = ensemble;
  const isAlone = config.ensembles === undefined;
  const floor = new FencingFloor({
    ...{ control, layout, zxids, logger },
    ...{ above: config.fencingFloor, setting: options.floorSetting },
    onRegistered: isAlone ? (zk) => format.readMap(zk) : onRegistered,
  });
  const format: DataFormat = new DataFormat(control, layout, floor, isAlone);
  const keys = new LeaseKeys(control, layout, config.leaseKeys);
  const context: Coordination = {
    control,
    leases: new Leases({ control, sessions, keys, bounds, layout, floor, clock, metrics, maxLeasesPerPrincipal }),
    layout,
    zooKeeperClock: ensemble.clock,
    metrics,
    lines: new Lines(control, metrics),
    granted: new GrantedHolds(),
    lostHolds: new LostHolds(),
    freeLines: new FreeLines(),
    cleanup: new Cleanup(control),
    contention,
    names: boundNames(control, ensemble, layout, config),
    pageTokens: new PageTokens(keys),
    reservationTokens: new ReservationTokens(keys),
    isOpen,
  };
  return { context, sessions, bounds, keys, floor, format };
}

function sessionsOf(
  control: ControlSession,
  layout: Layout,
  { config, ensemble, metrics, logger }: FoundationOptions,
): AttachedSessions {
  const sessions = new AttachedSessions({
    ensemble,
    cap: config.maxAttached,
    metrics,
    isAlive: (lease, deadline) => isAlive(control, layout.lease(lease.namespace, lease.leaseId), lease, deadline),
    nodeOf: ({ namespace, leaseId }) => layout.lease(namespace, leaseId),
  });
  // Leases can do without a connection of their own; the replica cannot.
  control.onRefused(() => sessions.makeRoom());
  sessions.onFirstRefusal((connections) =>
    logger.warn(
      { connections },
      `a new connection to ZooKeeper ended before it was answered, with ${connections} of leases open: either it was cut, or ZooKeeper allows no more from this address, whose maxClientCnxns is to be raised then; leases take turns on the connections there are until more are possible (not logged again)`,
    ),
  );
  return sessions;
}
