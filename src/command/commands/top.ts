/** The subcommand that watches. */
import { command } from '../arguments/command.js';
import { choice, duration, integer, toggle } from '../arguments/option.js';

export const ORDERS = ['waiting', 'oldest', 'depth', 'name'] as const;
export type Order = (typeof ORDERS)[number];

export const top = command({
  name: 'top',
  summary: 'Watch locks, who waits for them, and queues',
  description: `Shows in a terminal, again and again, how many locks, read-write locks, semaphores, elections and queues there are, how many wait, \
the herd factor (how many are woken for each hand-over; 1 is best), and what most wait for. "q" ends it, "s" changes the order. Without a terminal \
it prints frame after frame.

Requests that wait now, and the herd factor, are those of the replicas that --url names: name all of them. The herd factor is missing where \
the metrics have a port of their own. What there is comes from lists, of which at most the first 10 000 names of a kind are read, and for a tenth of the \
time: with many names it is some minutes old, and "+" marks a number that is not complete.`,
  arguments: [],
  options: {
    interval: duration('How long a frame stands; 500ms is the least.', '2s'),
    once: toggle('Print one frame, when everything has been counted, and exit.'),
    sort: choice('What stands first: most waiting, longest wait, deepest queue, or name.', ORDERS, 'waiting'),
    limit: integer('How many names to show. Default: what the terminal has room for, or 20.', { min: 1, max: 1_000 }),
  },
  examples: ['postern top --url http://a:7070,http://b:7070', 'postern top --once --json'],
});
