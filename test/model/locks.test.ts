/** Locks against a model: see `run-sequences.ts`. */
import { lockSequences } from './commands.js';
import { LineModel } from './line-model.js';
import { LineScene } from './line-scene.js';
import { testAgainstModel } from './run-sequences.js';

testAgainstModel({
  kind: 'locks',
  scene: (site, name) => new LineScene(site, 'locks', name, new LineModel()),
  sequences: lockSequences,
});
