/** Subcommands for schedules. */
import { command } from '../arguments/command.js';
import { choice, integer, text, toggle } from '../arguments/option.js';

const NAME = { name: 'NAME', sentence: 'the schedule' };

export const put = command({
  name: 'schedule put',
  summary: 'Push a message at the times of a cron expression',
  description: `Makes the schedule NAME, or replaces it: at each time that CRON names, BODY, or what standard input has, is pushed to \
the queue as one message. Prints when it is due next.`,
  arguments: [
    NAME,
    { name: 'CRON', sentence: "minute, hour, day of the month, month and day of the week, such as '0 3 * * *'" },
    { name: 'BODY', sentence: 'the message; standard input if it is left out', optional: true },
  ],
  options: {
    queue: text('QUEUE', 'The queue that it is pushed to; made if there is none. It has to be given.'),
    zone: text('ZONE', 'The time zone of CRON, such as Europe/Berlin. Default: UTC.'),
    as: choice('What the body is: a text as it stands, or a JSON value.', ['text', 'json'], 'text'),
    misfire: choice(
      'What follows for times that were missed: none of them is pushed, or the latest.',
      ['skip', 'once'],
      'skip',
    ),
    priority: integer('The lowest is delivered first, in queues with priorities.', { min: 0, max: 999 }),
    paused: toggle('Nothing is pushed until it is put again without this.'),
  },
  examples: [`postern schedule put nightly '0 3 * * *' --zone Europe/Berlin --queue jobs backup`],
});

export const rm = command({
  name: 'schedule rm',
  summary: 'Delete a schedule',
  description: `Nothing more is pushed for it; messages that were pushed stay in their queue. Succeeds also if there is none.`,
  arguments: [NAME],
  options: {},
  examples: ['postern schedule rm nightly'],
});
