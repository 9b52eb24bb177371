/** Subcommands that look at what there is, and ask for it back. */
import { command } from '../arguments/command.js';
import { duration, integer, text } from '../arguments/option.js';

export const LISTED = [
  'locks',
  'rwlocks',
  'semaphores',
  'elections',
  'queues',
  'groups',
  'barriers',
  'double-barriers',
  'config',
  'counters',
  'leases',
] as const;

export const SHOWN = [
  'lock',
  'rwlock',
  'semaphore',
  'election',
  'queue',
  'group',
  'barrier',
  'double-barrier',
  'counter',
  'lease',
] as const;

export const REVOKED = ['lock', 'rwlock', 'semaphore', 'election'] as const;

export const ls = command({
  name: 'ls',
  summary: 'List names of a kind',
  description: 'Lists what there is of a kind, in order of name.',
  arguments: [{ name: 'KIND', sentence: `one of ${LISTED.join(', ')}`, choices: LISTED }],
  options: {
    prefix: text('TEXT', 'Only names that begin so.'),
    limit: integer('How many to list at most.', { min: 1, max: 1_000_000, fallback: 1_000 }),
  },
  examples: ['postern ls locks', 'postern ls queues --prefix mail --json'],
});

export const show = command({
  name: 'show',
  summary: 'Show one thing',
  description:
    'Shows one thing as the gateway does: a lock with its holders and who waits first, a queue with its depth, and so on.',
  arguments: [
    { name: 'KIND', sentence: `one of ${SHOWN.join(', ')}`, choices: SHOWN },
    { name: 'NAME', sentence: 'its name; of a lease, the id' },
  ],
  options: {},
  examples: ['postern show lock backup'],
});

export const revoke = command({
  name: 'revoke',
  summary: 'Ask a holder to release what it holds',
  description: `Asks the holders to release it. With --grace the hold is broken when that time has passed; without it they are only \
asked. It needs the scope "admin".

A holder is told with the answer to its next heartbeat. With a --grace of at least the TTL of its lease (15s unless set otherwise), a job \
that runs under "postern" is dead before the hold is broken. With a shorter one the job may go on after another has been granted the \
hold, until the command hears of it: a third of the TTL at most while a gateway answers, and five sixths if none does. The fencing \
token keeps such a job from doing harm.`,
  arguments: [
    { name: 'KIND', sentence: `one of ${REVOKED.join(', ')}`, choices: REVOKED },
    { name: 'NAME', sentence: 'its name' },
  ],
  options: {
    grace: duration('When the hold is broken; 0 breaks it at once.'),
    reason: text('TEXT', 'What the holder is told.'),
    'hold-id': text('ID', 'Only this hold.'),
  },
  examples: ["postern revoke lock backup --grace 30s --reason 'maintenance at noon'"],
});
