/** Where requests wait in all replicas: `answerer.ts` answers, `asker.ts` asks, `answer.ts` is what is said. */
import cluster from 'node:cluster';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import type { Answerer } from './answer.js';
import { Answering } from './answerer.js';
import { Asker, type Gathered } from './asker.js';

export interface ContentionRecipe extends Recipe {
  /** The contention of all replicas. @throws NoReplyError when ZooKeeper does not answer this replica */
  ask(namespace: string): Promise<Gathered>;
}

export function contentionRecipe(context: Coordination, { config, warn }: RecipeOptions): ContentionRecipe {
  const answering = new Answering(context, answererOf(config.port), (error) =>
    warn(error, 'the contention of this replica could not be told to others; it is tried again'),
  );
  const asker = new Asker(context);
  return {
    ask: (namespace) => asker.ask(namespace),
    start: () => answering.start(),
    // A replica that drains has requests that wait, and answers.
    close: () => answering.close(),
  };
}

function answererOf(port: number): Answerer {
  const id = randomUUID();
  // Workers have the process that started them in common (`workers/supervisor.ts`).
  const group = cluster.isWorker ? String(process.ppid) : id;
  return { process: id, replica: `${hostname()}:${port}`, group };
}
