/** Read-write rwlocks against a model: see `run-sequences.ts`. */
import { readWriteSequences } from '../../line/model/commands.js';
import { LineModel } from '../../line/model/model.js';
import { LineScene } from '../../line/model/scene.js';
import { testAgainstModel } from '../../line/model/run-sequences.js';

testAgainstModel({
  kind: 'rwlocks',
  scene: (site, name) => new LineScene(site, 'rwlocks', name, new LineModel()),
  sequences: readWriteSequences,
});
