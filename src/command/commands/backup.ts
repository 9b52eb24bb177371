/** `postern export` and `import`. */
import { command } from '../arguments/command.js';
import { list, toggle } from '../arguments/option.js';

/** In the order in which they are exported: schedules push into queues, and come last. */
export const KINDS = ['config', 'counters', 'pools', 'queues', 'schedules'] as const;

export const exportAll = command({
  name: 'export',
  summary: 'Print a backup of what a namespace keeps, for import',
  description: `Prints the keys of the configuration, counters, pools, queues with their messages, and schedules of one namespace as lines of \
JSON, and at the end a line with their number and a checksum. Nothing is changed, and no message is taken. It needs the scope "read" on each \
kind; what the key may not see is not exported. Where there is nothing, as in a namespace whose name is mistyped, the exit code is 1; what is printed \
is a whole backup all the same.

Each item is as it was at one moment while the command ran: a key has one of its values, and keys that are read together, 64 at a \
time, are of one moment. A message that is there all the time is exported, also one that becomes due meanwhile. One that is pushed, taken, given back \
with a delay or moved to another queue meanwhile may be missing, or stand in two places. For a queue as it is at one moment, stop those who push, and pause \
it first ("postern queue pause"): it is exported as paused then, and comes back so. A claimed message is exported as one that \
nobody has claimed.

Not exported is what belongs to a lease or a moment: holds, places in line, claims, members of groups, messages to groups, reservations, barriers, runs, \
the idempotency of earlier requests, and what a schedule has pushed or missed.`,
  arguments: [],
  options: { kinds: list('KIND,KIND', `Only these, of ${KINDS.join(', ')}. Default: all.`) },
  examples: ['postern export > backup.jsonl', 'postern export --namespace shop --kinds config,counters > shop.jsonl'],
  exits: { 1: 'there was nothing to export, or the gateway refused the request' },
});

export const importAll = command({
  name: 'import',
  summary: 'Write what export printed',
  description: `Writes what is missing. What is there already and differs is kept, unless --overwrite is given; what FILE does not have is never \
touched. A counter that is 0 counts as missing. Messages come behind those that are in their queue, with their ids, times, deliveries and what they \
were if they are dead letters; one whose id is in any queue there is left out, whatever its state. The namespace is that of the export, unless --namespace or POSTERN_NAMESPACE names another one.

Interrupted or refused, the command may be run again: it goes on, and brings no message back twice within a day. Later, messages that were brought \
back before and taken since come once more. What is in the queues is read before the first message is brought back: one that is moved from queue to queue \
just then may be overlooked, and come twice. At the end it says what it did.

A queue that was paused comes back paused; one that is there and runs differs then, and its messages are left out.

With --dry-run it says the same as it would otherwise, as long as nobody else writes meanwhile. It does not know what the gateway would refuse, nor \
which messages an import of the last day has brought back and others have taken since: they count as created, and it says of how many that is not sure.

FILE is read once before anything is written: one that is cut off or was changed is refused, and so is a pipe, such as <(zcat …). From standard input, that is seen at the end only.

It needs the scope "use" and "read" on each kind, and "admin" on queues. A schedule goes on with the first time after its import.`,
  arguments: [{ name: 'FILE', sentence: 'the lines; standard input if it is left out', optional: true }],
  options: {
    overwrite: toggle('Replace what is there and differs: keys, counters, pools, configurations of queues, schedules.'),
    'dry-run': toggle('Write nothing; say what would be written.'),
    kinds: list('KIND,KIND', `Only these, of ${KINDS.join(', ')}. Default: all that FILE has.`),
  },
  examples: [
    'postern import backup.jsonl --dry-run',
    'postern import backup.jsonl',
    'postern export --namespace a --url http://old:7070 | postern import --namespace b --url http://new:7070',
  ],
});
