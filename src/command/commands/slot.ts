/** The subcommand that runs a job with members of a pool. */
import { command } from '../arguments/command.js';
import { list, patience, text, toggle } from '../arguments/option.js';
import { JOB_DESCRIPTION, JOB_EXITS, JOB_OPTIONS } from './lock.js';

export const slot = command({
  name: 'slot',
  summary: 'Run a command that is given a number, or another member of a pool',
  description: `Waits in line for members of the pool, runs the job behind "--", and releases them when the job has ended. The pool \
is made with PUT /v1/pools/NAME. The job finds the ids of its members in POSTERN_SLOT, separated by spaces, and their data as a JSON \
object, by id, in POSTERN_SLOT_DATA.

${JOB_DESCRIPTION}`,
  arguments: [{ name: 'NAME', sentence: 'the pool' }],
  options: {
    count: text('COUNT', 'How many members, all at once. Default: 1.'),
    labels: list('LABEL,LABEL', 'Only members that have all these labels.'),
    same: toggle('Prefer what the owner had before, if it is free.'),
    owner: text('TEXT', 'With --same, whose members are remembered. Default: the label.'),
    wait: patience('How long to wait in line, or forever. Default: 1m.'),
    ...JOB_OPTIONS,
  },
  runs: true,
  examples: ['postern slot workers --same -- ./worker.sh', 'postern slot phones --labels ios --wait 10m -- ./test.sh'],
  exits: JOB_EXITS,
});
