/** Subcommands for groups. */
import { command } from '../arguments/command.js';
import { choice, integer, text, toggle } from '../arguments/option.js';
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

const GROUP = { name: 'NAME', sentence: 'the group' };

export const post = command({
  name: 'group post',
  summary: 'Post a message to all who listen to a group',
  description: `Posts BODY, or what standard input has, as one message, and prints its number. Nobody has to be a member of the group, \
to post or to listen. A repeated post with the same --request-id adds nothing for five minutes.`,
  arguments: [GROUP, { name: 'BODY', sentence: 'the message; standard input if it is left out', optional: true }],
  options: {
    as: choice('What the body is: a text as it stands, or a JSON value.', ['text', 'json'], 'text'),
    'request-id': text('ID', 'Makes a repeated post harmless. Default: a random one.'),
  },
  examples: ["postern group post api 'reload rates'", `postern group post api --as json '{"reload": "rates"}'`],
});

export const messages = command({
  name: 'group messages',
  summary: 'Print the messages to a group as they come',
  description: `Prints a line for each message to the group from now on, with its number, until it is ended. It goes on where it was when \
the gateway does not answer for a while. Messages that were dropped before they were read are said to be missing, on standard error, and \
with --json in the member "missed" of the next one.`,
  arguments: [GROUP],
  options: {
    after: integer('Begin behind the message of this number; 0 begins with the oldest that is kept.', {
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
    }),
    max: integer('How many messages to print; then the command exits. Without it there is no limit.', {
      min: 1,
      max: 1_000_000,
    }),
  },
  examples: ['postern group messages api', 'postern group messages api --after 0 --json'],
});
