/** Read-write rwlocks against a model: see `run-sequences.ts`. */
import { readWriteSequences } from './commands.js';
import { LineModel } from './line-model.js';
import { LineScene } from './line-scene.js';
import { testAgainstModel } from './run-sequences.js';

testAgainstModel({
  kind: 'rwlocks',
  scene: (site, name) => new LineScene(site, 'rwlocks', name, new LineModel()),
  sequences: readWriteSequences,
});
