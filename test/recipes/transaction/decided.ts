/**
 * How far a transaction is, seen in its nodes: a replica that is asked would decide it.
 */
import type { Replica } from '../../support/start-gateway.js';

/** More than the pings of two connections, and less than a request with a path of ours. */
export const A_PING_BYTES = 60;

/** Whether it is decided in ZooKeeper, seen without asking a replica, which would decide it. */
export async function isDecided({ gateway }: Replica, id: string): Promise<boolean> {
  const { control, layout } = gateway.context;
  return (await control.getData(layout.transaction('default', id))).stat.version === 1;
}

/** How many nodes there are below the transaction's. */
export async function childrenOf({ gateway }: Replica, id: string): Promise<number> {
  const { control, layout } = gateway.context;
  return (await control.getData(layout.transaction('default', id))).stat.numChildren;
}
