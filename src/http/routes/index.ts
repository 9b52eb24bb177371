/** All routes; new ones add a line here. The frame checks them against the contract (`frame/app.ts`). */
import type { Handler, Routes } from '../frame/exchange.js';
import { barrierRoutes } from './barriers.js';
import { configRoutes } from './config.js';
import { contentionRoutes } from './contention.js';
import { counterRoutes } from './counters.js';
import { doubleBarrierRoutes } from './double-barriers.js';
import { electionRoutes } from './elections.js';
import { eventRoutes, withStreams } from './events.js';
import { groupMessageRoutes } from './group/messages.js';
import { groupRoutes } from './group/groups.js';
import { leaseRoutes } from './leases.js';
import { lockRoutes } from './locks.js';
import { poolRoutes } from './pools.js';
import { queueAdminRoutes } from './queue-admin.js';
import { queueRoutes } from './queues.js';
import { fleetlockRoutes } from './reservation/fleetlock.js';
import { reservationRoutes } from './reservation/reservations.js';
import { terraformRoutes } from './reservation/terraform.js';
import { runRoutes } from './runs.js';
import { scheduleRoutes } from './schedules.js';
import type { RouteFactory, Serving } from './shared/serving.js';
import { transactionRoutes } from './transactions.js';

/** All but the operations, which tell of the replica itself. */
const FACTORIES: readonly RouteFactory[] = [
  contentionRoutes,
  leaseRoutes,
  lockRoutes,
  reservationRoutes,
  fleetlockRoutes,
  terraformRoutes,
  electionRoutes,
  groupRoutes,
  groupMessageRoutes,
  configRoutes,
  transactionRoutes,
  barrierRoutes,
  queueRoutes,
  queueAdminRoutes,
  counterRoutes,
  doubleBarrierRoutes,
  poolRoutes,
  runRoutes,
  scheduleRoutes,
  eventRoutes,
];

/** The routes of recipes; those of `operations.ts` belong to no ensemble. */
export function makeRoutes(serving: Serving): Routes {
  const building = { ...serving, watchables: new Map() };
  const handlers = Object.fromEntries(FACTORIES.flatMap((make) => Object.entries(make(building))));
  const routes = Object.entries(withStreams(handlers, building));
  return Object.fromEntries(routes.map((route) => admitting(route, serving)));
}

function admitting([id, handler]: readonly [string, Handler], { admit }: Serving): [string, Handler] {
  return [
    id,
    (exchange) => {
      const admitted = admit(exchange.deadline);
      return admitted === undefined ? handler(exchange) : admitted.then(() => handler(exchange));
    },
  ];
}
