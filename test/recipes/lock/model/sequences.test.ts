/** Locks against a model: see `run-sequences.ts`. */
import { lockSequences } from '../../line/model/commands.js';
import { LineModel } from '../../line/model/model.js';
import { LineScene } from '../../line/model/scene.js';
import { testAgainstModel } from '../../line/model/run-sequences.js';

testAgainstModel({
  kind: 'locks',
  scene: (site, name) => new LineScene(site, 'locks', name, new LineModel()),
  sequences: lockSequences,
});
