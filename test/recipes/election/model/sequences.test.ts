/** Elections against a model: see `run-sequences.ts`. */
import { electionSequences } from '../../line/model/commands.js';
import { ElectionScene } from './scene.js';
import { testAgainstModel } from '../../line/model/run-sequences.js';

testAgainstModel({
  kind: 'elections',
  scene: (site, name, number) => new ElectionScene(site, name, number % 2 === 0 ? 0 : 1),
  sequences: electionSequences,
});
