/** Subcommands for reservations of locks. */
import { command } from '../arguments/command.js';
import { duration, file, patience, text } from '../arguments/option.js';

const LOCK = { name: 'NAME', sentence: 'the lock' };
const TOKEN = {
  'token-file': file(
    'The file whose first line is the token that "postern reserve" printed. Default: the token itself in POSTERN_RESERVATION_TOKEN.',
  ),
};

export const reserve = command({
  name: 'reserve',
  summary: 'Reserve a lock until a time',
  description: `Holds the lock for as long as --for says, without a process that keeps it: the command prints the token of the \
reservation on standard output, and ends. Whoever has the token may extend or release it. Until its end nothing else frees the lock but \
an administrator ("postern break", "postern revoke").`,
  arguments: [LOCK],
  options: {
    for: duration('For how long, from when it is granted. It must be given.'),
    owner: text('TEXT', 'For whom it is; shown to everybody. Default: the name of the user.'),
    reason: text('TEXT', 'Why; shown to everybody.'),
    wait: patience('How long to wait in line, or forever. Default: not at all.'),
  },
  examples: ["postern reserve staging --for 2h --reason 'release 4.2' > token", 'postern ls reservations'],
  exits: { 75: 'not granted in time, or not served: it may be tried again later' },
});

export const extend = command({
  name: 'reservation extend',
  summary: 'Extend a reservation',
  description: `The lock stays reserved for at least as long as --for says, from now on. It is never shortened. After a change of the \
gateway's keys the file of the token is given a new one.`,
  arguments: [LOCK],
  options: { for: duration('For how long, from now. It must be given.'), ...TOKEN },
  examples: ['postern reservation extend staging --for 1h --token-file token'],
});

export const release = command({
  name: 'reservation release',
  summary: 'Release a reservation before its time',
  description: 'The lock is free at once. If the reservation has ended already, the exit code is 1.',
  arguments: [LOCK],
  options: TOKEN,
  examples: ['postern reservation release staging --token-file token'],
});
