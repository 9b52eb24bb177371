/** Semaphores against a model: see `run-sequences.ts`. */
import { semaphoreSequences } from '../../line/model/commands.js';
import { testAgainstModel } from '../../line/model/run-sequences.js';
import { SemaphoreScene } from './scene.js';

testAgainstModel({
  kind: 'semaphores',
  scene: (site, name) => new SemaphoreScene(site, name),
  sequences: semaphoreSequences,
});
