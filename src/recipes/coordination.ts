/** The context that all recipes of one replica share. */
import type { Layout } from '../leases/layout.js';
import type { Leases } from '../leases/leases.js';
import type { PageTokens } from '../leases/page-token.js';
import type { ReservationTokens } from '../leases/reservation-token.js';
import type { Metrics } from '../metrics/metrics.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { ServerClock } from '../zookeeper/server-clock.js';
import type { Cleanup } from './line/cleanup.js';
import type { Contention } from './waiting/contention.js';
import type { FreeLines } from './line/known-free.js';
import type { GrantedHolds } from './line/granted-holds.js';
import type { Lines } from './line/line.js';
import type { LostHolds } from './line/delay/lost-holds.js';
import type { NameBounds } from './name-bounds.js';

export interface Coordination {
  control: ControlSession;
  leases: Leases;
  pageTokens: PageTokens;
  reservationTokens: ReservationTokens;
  layout: Layout;
  zooKeeperClock: ServerClock;
  metrics: Metrics;
  lines: Lines;
  granted: GrantedHolds;
  lostHolds: LostHolds;
  freeLines: FreeLines;
  cleanup: Cleanup;
  contention: Contention;
  names: NameBounds;
  /** Whether things may happen there without being asked for: not in a namespace that is closed or lies elsewhere. */
  isOpen: (namespace: string) => boolean;
}
