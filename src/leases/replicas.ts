/** What people call the replicas that processes are part of, as these have told with their contention (ADR 22). */
import type { BoundClient } from '../zookeeper/bound.js';
import { join } from '../zookeeper/paths.js';
import type { Layout } from './layout.js';

/** Of these processes the first are named. */
const NAMED_MAX = 10;

/**
 * For a message: `host:port` of each replica, or the session of a process that has not told.
 * @param processes by their control sessions, as their nodes are called
 * @throws NoReplyError
 */
export async function replicasOf(
  zk: BoundClient,
  layout: Pick<Layout, 'replicas'>,
  processes: readonly { readonly session: string }[],
): Promise<string> {
  const named = processes.slice(0, NAMED_MAX).map(async ({ session }) => {
    const node = await zk.find(join(layout.replicas, session));
    return (node && replicaOf(node.data)) ?? `session 0x${session}`;
  });
  const names = [...new Set(await Promise.all(named))];
  if (processes.length > NAMED_MAX) names.push('…');
  return names.join(', ');
}

function replicaOf(data: Buffer): string | undefined {
  try {
    const { replica } = JSON.parse(data.toString()) as { replica?: unknown };
    return typeof replica === 'string' ? replica : undefined;
  } catch {
    return undefined;
  }
}
