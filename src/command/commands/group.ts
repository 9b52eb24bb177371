/** Subcommands for groups. */
import { command } from '../arguments/command.js';
import { text, toggle } from '../arguments/option.js';
import { JOB_DESCRIPTION, JOB_EXITS, JOB_OPTIONS } from './lock.js';

export const join = command({
  name: 'group join',
  summary: 'Be a member of a group while it runs',
  description: `Joins the group and stays a member until the job behind "--" has ended, or, without a job, until the command is told \
to end (INT, TERM, HUP). A command that is killed, or stands still, stays a member for as long as its TTL.

${JOB_DESCRIPTION}`,
  arguments: [{ name: 'NAME', sentence: 'the group' }],
  options: {
    value: text('TEXT', 'What others see of the member, such as its address.'),
    member: text(
      'NAME',
      'What it is called in the group. As long as another lease has that name, such as one of a command that was killed, it is refused. Default: a random name.',
    ),
    watch: toggle(
      'Print a line for each member that is there, joins (+), shows another value (=) or leaves (-). Only without a job. Of changes that follow each other quickly, only the last is sure to be seen.',
    ),
    again: toggle('Join again when the membership was lost, in place of exiting with 76.'),
    ...JOB_OPTIONS,
  },
  runs: 'optional',
  examples: [
    'postern group join api --value "$POD_IP:8080" -- ./server',
    'postern group join api --value "$POD_IP:8080" --watch --json',
  ],
  exits: { ...JOB_EXITS, 75: 'not served: it may be tried again later' },
});
