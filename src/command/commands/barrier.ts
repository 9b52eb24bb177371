/** Subcommands for barriers and double barriers. */
import { command } from '../arguments/command.js';
import { integer, patience } from '../arguments/option.js';
import { JOB_DESCRIPTION, JOB_EXITS, JOB_OPTIONS } from './lock.js';

const BARRIER = { name: 'NAME', sentence: 'the barrier' };
/** As the contract has it. */
const MEMBERS_MAX = 1_000;

export const wait = command({
  name: 'barrier wait',
  summary: 'Wait until a barrier is lifted',
  description: `Exits as soon as the barrier is lifted, also if it is raised again at once. One that nobody has raised is lifted.`,
  arguments: [BARRIER],
  options: { wait: patience('How long to wait, or forever. Default: forever.') },
  examples: ['postern barrier wait migration --wait 5m && ./server'],
  exits: { 75: 'not lifted in time, or not served: it may be tried again later' },
});

export const raise = command({
  name: 'barrier raise',
  summary: 'Raise a barrier',
  description: 'From now on whoever waits at it waits until it is lifted. It stays raised when the command has ended.',
  arguments: [BARRIER],
  options: {},
  examples: ['postern barrier raise migration'],
});

export const lift = command({
  name: 'barrier lift',
  summary: 'Lift a barrier',
  description: 'Everybody who waits at it goes on. Lifting one that is not raised does nothing.',
  arguments: [BARRIER],
  options: {},
  examples: ['postern barrier lift migration'],
});

export const enter = command({
  name: 'barrier enter',
  summary: 'Run commands that begin together and end together',
  description: `Enters the double barrier NAME, waits until as many have entered as --members says, and runs the job behind "--". \
When that has ended it leaves, and exits when all others have left too, or their leases have ended. A command that is told to end \
does not wait for the others.

${JOB_DESCRIPTION}`,
  arguments: [{ name: 'NAME', sentence: 'the double barrier' }],
  options: {
    members: integer('How many begin together, and end together; all of them say the same. It must be given.', {
      min: 1,
      max: MEMBERS_MAX,
    }),
    wait: patience('How long to wait for the others to enter, or forever. Default: forever.'),
    ...JOB_OPTIONS,
  },
  runs: true,
  examples: ['postern barrier enter load-test --members 3 --wait 5m -- ./shoot.sh'],
  exits: { ...JOB_EXITS, 75: 'the others did not enter in time; the job did not run' },
});
