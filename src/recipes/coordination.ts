/** What all recipes of one replica share. */
import type { Layout } from '../leases/layout.js';
import type { Leases } from '../leases/leases.js';
import type { Metrics } from '../metrics/metrics.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { ServerClock } from '../zookeeper/server-clock.js';
import type { Cleanup } from './cleanup.js';
import type { Contention } from './contention.js';
import type { FreeLines } from './free-lines.js';
import type { GrantedHolds } from './granted-holds.js';
import type { Lines } from './line.js';

export interface Coordination {
  control: ControlSession;
  leases: Leases;
  layout: Layout;
  zooKeeperClock: ServerClock;
  metrics: Metrics;
  lines: Lines;
  granted: GrantedHolds;
  freeLines: FreeLines;
  cleanup: Cleanup;
  contention: Contention;
}
