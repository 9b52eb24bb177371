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
  'pools',
  'runs',
  'schedules',
  'leases',
  'reservations',
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
  'pool',
  'run',
  'schedule',
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
    'Shows one thing as the gateway does: a lock with its holders and who waits first, a queue with its depth, a run with its last occurrences, and so on.',
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

export const transfer = command({
  name: 'transfer',
  summary: 'Make a candidate the leader of an election',
  description: `Makes the candidate the next in line and asks the leader to resign; it is deposed when --grace has passed, or at once without \
it. If the candidate has gone by then, the leader stays. Candidates that stood between the two are overtaken: they stand again behind all \
others, by themselves if they wait under "postern elect". It needs the scope "admin".

What --grace means for a leader that runs under "postern" is the same as for "postern revoke".`,
  arguments: [
    { name: 'ELECTION', sentence: 'its name' },
    { name: 'CANDIDATE', sentence: 'its candidateId, as "postern show election" has it' },
  ],
  options: {
    grace: duration('When the leader is deposed, if it has not resigned.'),
    reason: text('TEXT', 'What the leader is told.'),
  },
  examples: ["postern transfer scheduler AwAAc29tZXRoaW5nIG9wYXF1ZQ --grace 30s --reason 'moved to the other site'"],
});

const LINE_ARGUMENTS = [
  { name: 'KIND', sentence: `one of ${REVOKED.join(', ')}`, choices: REVOKED },
  { name: 'NAME', sentence: 'its name' },
] as const;

export const nodes = command({
  name: 'nodes',
  summary: 'List the nodes in a line, as they lie in ZooKeeper',
  description: `Shows everything that stands in a line, with the version that "postern break" has to name. It needs the scope "admin".`,
  arguments: LINE_ARGUMENTS,
  options: { limit: integer('How many to list at most.', { min: 1, max: 1_000, fallback: 100 }) },
  examples: ['postern nodes lock deploy'],
});

export const breakNode = command({
  name: 'break',
  summary: 'Remove a node from a line that does not go by itself',
  description: `Removes one node from a line: a persistent one that some program has left, that of a program other than Postern, or a \
reservation. Whoever made it is not told. What belongs to a lease is refused: "postern revoke" asks for it. It needs the scope "admin", \
and leaves a line in the audit log of the gateway.

If somebody has written to the node since it was seen at --version, nothing is done, and the exit code is 1.`,
  arguments: [...LINE_ARGUMENTS, { name: 'NODE', sentence: 'the name of the node, as "postern nodes" shows it' }],
  options: {
    version: integer('The version of the node that was seen. It must be given.', { min: 0, max: 2_147_483_647 }),
    reason: text('TEXT', 'Why, for the audit log.'),
  },
  examples: ["postern break lock deploy x-lock-0000000003 --version 0 --reason 'left by the old deployer'"],
});
