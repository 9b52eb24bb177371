/** Semaphores against a model: see `run-sequences.ts`. */
import { semaphoreSequences } from './commands.js';
import { testAgainstModel } from './run-sequences.js';
import { SemaphoreScene } from './semaphore-scene.js';

testAgainstModel({
  kind: 'semaphores',
  scene: (site, name) => new SemaphoreScene(site, name),
  sequences: semaphoreSequences,
});
