/** Locks by priority against a model: see `run-sequences.ts`. */
import { prioritySequences } from '../../line/model/commands.js';
import { testAgainstModel } from '../../line/model/run-sequences.js';
import { PriorityScene } from './scene.js';

testAgainstModel({
  kind: 'locks',
  what: 'locks by priority',
  scene: (site, name) => new PriorityScene(site, name),
  sequences: prioritySequences,
});
