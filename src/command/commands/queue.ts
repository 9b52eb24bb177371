/** Subcommands for queues. */
import { command } from '../arguments/command.js';
import { choice, duration, integer, list, text, toggle } from '../arguments/option.js';
import { JOB_OPTIONS } from './lock.js';

const QUEUE = { name: 'NAME', sentence: 'the queue' };
const MANY = 1_000_000;

export const push = command({
  name: 'queue push',
  summary: 'Push a message, or one per line',
  description: `Pushes BODY, or what standard input has, as one message, and prints its id. A repeated push with the same \
--message-id adds nothing for five minutes.`,
  arguments: [QUEUE, { name: 'BODY', sentence: 'the message; standard input if it is left out', optional: true }],
  options: {
    as: choice('What the body is: a text as it stands, or a JSON value.', ['text', 'json'], 'text'),
    lines: toggle('Each line of standard input is a message; all of them are pushed, or none, up to 1 000.'),
    'message-id': text('ID', 'Makes a repeated push harmless. Default: a random one.'),
    priority: integer('The lowest is delivered first, in queues with priorities.', { min: 0, max: 999 }),
    group: text('NAME', 'Delivered one after the other within it; for queues with groups.'),
    delay: duration('How long it is held back.'),
    'expires-in': duration('After that time it is not delivered any more. Default: as long as the queue says.'),
    attribute: list('KEY=VALUE', 'Delivered with the message; may be given several times.'),
  },
  examples: ["postern queue push mails 'to: ada'", 'postern queue push mails --as json < mail.json'],
});

export const work = command({
  name: 'queue work',
  summary: 'Run a command for each message',
  description: `Claims messages and runs the job behind "--" once for each, with the body on standard input and \
POSTERN_QUEUE, POSTERN_MESSAGE_ID and POSTERN_DELIVERIES in its environment. NAME may be up to 16 queues, separated by commas: each message \
is from the first of them that has one, in that order. A message whose job exits with 0 is done; otherwise it is given back and \
delivered again after --retry-delay. A queue that was made with maxDeliveries and deadLetterQueue (PUT /v1/queues/NAME) moves it to \
that other queue after so many tries; without them it is tried for ever.

Signals are passed on to the jobs; INT, TERM and HUP also end the loop, when the jobs have ended. A job is dead before its message is \
delivered to anybody else because the lease was lost; see "postern lock --help".`,
  arguments: [{ name: 'NAME', sentence: 'the queue, or several, separated by commas' }],
  options: {
    concurrency: integer('How many jobs run at once.', { min: 1, max: 256, fallback: 1 }),
    max: integer('How many messages to take; then the command exits. Without it there is no limit.', {
      min: 1,
      max: MANY,
    }),
    'retry-delay': duration(
      'How long a message that is given back is held back. One of a group (order: grouped) stays claimed for that time, and counts as one of the jobs at once.',
      '1s',
    ),
    'dead-letter-exit': integer(
      'A message whose job exits with this code goes to the dead letters at once: nobody will ever be able to process it.',
      { min: 1, max: 255 },
    ),
    ...JOB_OPTIONS,
  },
  runs: true,
  examples: ['postern queue work mails --concurrency 4 -- ./send.sh', 'postern queue work urgent,mails -- ./send.sh'],
});

export const peek = command({
  name: 'queue peek',
  summary: 'Show the first messages, and take none',
  description:
    'Shows messages in the order in which they would be delivered, and behind them those that are not due yet.',
  arguments: [QUEUE],
  options: { limit: integer('How many to show.', { min: 1, max: 1_000, fallback: 20 }) },
  examples: ['postern queue peek mails --json'],
});

export const tail = command({
  name: 'queue tail',
  summary: 'Print messages as they are pushed, and take none',
  description: `Looks into the queue at an interval and prints a line for each message that it has not seen before, until it is ended. \
Nothing is taken, and nothing is missed but what is pushed and taken between two looks: for a record of every message, have a \
consumer write it.

The first look reads the whole queue, and others what has come since; in a queue with priorities every look reads all of it. A message \
that is not due yet is printed when it is pushed, and one that is delivered again is not printed again.`,
  arguments: [QUEUE],
  options: {
    all: toggle('First print the messages that are there.'),
    interval: duration('How long it waits between two looks; 100ms is the least.', '1s'),
  },
  examples: ['postern queue tail mails', 'postern queue tail mails --all --json'],
});

export const rm = command({
  name: 'queue rm',
  summary: 'Remove one message',
  description: `Removes the message with that id, as "postern queue peek" shows it, wherever it is in the queue, unless a consumer has \
claimed it.`,
  arguments: [QUEUE, { name: 'ID', sentence: 'the id of the message' }],
  options: {},
  examples: ['postern queue rm mails 5kqMlSJvT0uJqC1rVw0Yzg'],
});

export const pause = command({
  name: 'queue pause',
  summary: 'Hand no message out until it is resumed',
  description: `From now on nothing is handed out, whichever replica is asked; pushes are taken, and consumers wait. What is claimed stays \
claimed, and can be acknowledged.`,
  arguments: [QUEUE],
  options: {},
  examples: ['postern queue pause mails'],
});

export const resume = command({
  name: 'queue resume',
  summary: 'Hand messages of a paused queue out again',
  description: 'Those who wait get messages at once.',
  arguments: [QUEUE],
  options: {},
  examples: ['postern queue resume mails'],
});

export const redrive = command({
  name: 'queue redrive',
  summary: 'Move all messages to another queue',
  description: `Moves all messages that nobody has claimed to the end of the queue TO: for a queue of dead letters, once the cause is \
mended.`,
  arguments: [QUEUE, { name: 'TO', sentence: 'the queue that gets them' }],
  options: {},
  examples: ['postern queue redrive mails-dead mails'],
});
