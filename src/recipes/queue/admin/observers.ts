/**
 * Watches how many messages a queue has, for event streams (`observing/observers.ts`). The numbers change with every
 * message, so changes are published about twice a second at most; claims change without any change of a directory, so
 * they are counted every few seconds while somebody watches.
 */
import { createHash } from 'node:crypto';
import type { Coordination } from '../../coordination.js';
import { paced } from '../../observing/looks.js';
import { Observers, type Look, type LookResult } from '../../observing/observers.js';
import { prioritiesIn, QueuePaths, segmentsIn } from '../paths.js';
import type { Queues } from '../queues.js';
import { describeQueue, type QueueView } from './view.js';

export interface QueueState {
  /** Undefined: there is no such queue (any more). */
  view: QueueView | undefined;
  etag: string;
}

const BETWEEN_MS = 500;
const LOOK_EVERY_MS = 5_000;

export interface QueueSubject {
  path: string;
  namespace: string;
  name: string;
}

export type QueueObservers = Observers<QueueSubject, QueueState>;

/** Of all queues of one replica. */
export function queueObservers(context: Coordination, queues: Queues): QueueObservers {
  return new Observers(
    context.control,
    paced(BETWEEN_MS, (queue, look) => lookAtQueue(context, queues, queue, look)),
  );
}

async function lookAtQueue(
  context: Coordination,
  queues: Queues,
  { path, namespace, name }: QueueSubject,
  look: Look<QueueState>,
): Promise<LookResult> {
  const { control, layout } = context;
  const { watches } = control;
  const node = await watches.exists(path, look.wake, look.deadline);
  look.keep(node.watch);
  const found = await queues.read(namespace, name, look.deadline);
  if (found !== undefined) {
    const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
    const listen = async (directory: string): Promise<string[]> => {
      const { value, watch } = await watches.getChildren(directory, look.wake, look.deadline);
      look.keep(watch);
      return value?.children ?? [];
    };
    await listen(paths.delayed);
    for (const priority of prioritiesIn(await listen(paths.data))) {
      const segments = segmentsIn(await listen(paths.priority(priority)));
      // Messages come at the end and go at the beginning.
      for (const segment of new Set([segments.at(0), segments.at(-1)]))
        if (segment !== undefined) await listen(paths.segment(priority, segment));
    }
  }
  const view = await describeQueue(context, queues, namespace, name, look.deadline);
  const digest = createHash('sha256')
    .update(JSON.stringify(view ?? null))
    .digest('base64url')
    .slice(0, 22);
  look.publish({ view, etag: `"${digest}"` });
  const timer = setTimeout(look.wake, LOOK_EVERY_MS);
  look.keep({ cancel: () => clearTimeout(timer) });
  return 'wait';
}
