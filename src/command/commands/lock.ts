/** Subcommands that run a job under a hold. */
import { command } from '../arguments/command.js';
import { choice, duration, integer, list, patience, text, toggle } from '../arguments/option.js';

/** How a job under a hold is run, for each subcommand that runs one. */
export const JOB_OPTIONS = {
  ttl: duration(
    'How long the hold outlives its last heartbeat: a machine that dies keeps it for so long. The gateway has bounds for it.',
    '15s',
    1,
  ),
  'kill-after': duration(
    'How long a job that is told to end may take before it is killed, where its hold lives on that long.',
    '5s',
  ),
  'max-hold': duration('The longest hold: the job is stopped after that time. Without it there is no limit.'),
  label: text('TEXT', 'What others see of the holder. Default: the name of this machine.'),
};

export const JOB_EXITS = {
  '*': "the job's own; 128 and the number of the signal if one ended it",
  75: 'not acquired in time; the job did not run',
  76: 'the hold was lost, taken back or held for too long, and the job was stopped',
  126: 'the job cannot be executed',
  127: 'there is no such job',
};

/** The paragraphs that they share. */
export const JOB_DESCRIPTION = `The job finds its fencing token in POSTERN_FENCING_TOKEN and its hold in \
POSTERN_HOLD_ID, gets standard input, and runs in a process group and session of its own. Signals that the command gets \
(INT, TERM, HUP, QUIT, USR1, USR2) are passed on to the whole group, and the hold then ends when all of it has ended. \
When the job ends by itself, what it has left running goes on without the hold.

While the job runs, heartbeats are sent every third of the TTL. If none is answered, the job gets SIGTERM two thirds of the TTL \
after the last answered one was sent, and SIGKILL after five sixths: it is dead before anybody else can be granted \
the hold. A second process, the guardian, sees to that, also if the command is killed or stands still. \
The same holds for a revoked hold if the grace is at least its TTL; see "postern revoke --help" for a shorter one. A job that gives \
its processes sessions of their own escapes it, as does one that was paused together with the guardian: let what the job writes to compare the \
fencing token.`;

export const LOCK_OPTIONS = {
  names: list(
    'NAME,NAME',
    'Take all these locks, up to 100, in place of NAME, or none. They are taken in order of name, so that commands that do so do not wait for each other in a circle. The job finds its tokens and holds as JSON objects, by name, in POSTERN_FENCING_TOKENS and POSTERN_HOLD_IDS. No place in line is kept for longer than 15s: a lock that is hardly ever free is rarely granted together with others.',
  ),
  wait: patience('How long to wait in line, or forever. Default: 1m, or 0 with --busy skip and fail.'),
  busy: choice(
    'What to do when somebody else has it: wait in line and then exit with 75; fail, which is 75 at once; or skip, which is 0 at once. With --wait, skip and fail wait that long first.',
    ['wait', 'fail', 'skip'],
    'wait',
  ),
  shared: toggle(
    'Take the read-write lock NAME as a reader, together with others. The plain lock NAME is another one.',
  ),
  exclusive: toggle('Take the read-write lock NAME as its only writer.'),
  downgrade: toggle(
    'With --exclusive: take two jobs with "--" between them. The first one writes; when it has ended with 0 the hold becomes that of a reader, other readers come in and no writer, and the second job runs. It finds the same fencing token.',
  ),
  priority: integer(
    'Take the lock NAME by priority: of those who wait, the one with the highest is granted next. All who use the lock give one.',
    { min: 0, max: 10 },
  ),
  permits: text('COUNT/LIMIT', 'Take so many permits of the semaphore NAME, on whose limit all callers agree.'),
  ...JOB_OPTIONS,
};

export const lock = command({
  name: 'lock',
  summary: 'Run a command while holding a lock',
  description: `Waits in line for the lock, runs the job behind "--", and releases the lock when the job has ended.

${JOB_DESCRIPTION}`,
  arguments: [{ name: 'NAME', sentence: 'the lock; left out with --names', optional: true }],
  options: LOCK_OPTIONS,
  runs: true,
  examples: [
    'postern lock backup --wait 5m --ttl 15s -- ./backup.sh',
    'postern lock api --permits 2/5 -- ./call.sh',
    'postern lock --names account-4,account-17 -- ./transfer.sh',
    'postern lock catalogue --exclusive --downgrade -- ./rebuild.sh -- ./serve.sh',
    'postern lock cluster --priority 9 -- ./hotfix.sh',
    'postern lock nightly --busy skip -- ./report.sh      # in the crontabs of ten machines',
  ],
  exits: JOB_EXITS,
});

export const elect = command({
  name: 'elect',
  summary: 'Run a command while leading an election',
  description: `Stands for election, runs the job behind "--" when it leads, and resigns when the job has ended.

${JOB_DESCRIPTION}`,
  arguments: [{ name: 'NAME', sentence: 'the election' }],
  options: {
    value: text('TEXT', 'What observers see of the leader, such as its address.'),
    preference: integer(
      'How much it is preferred: of those who wait, the one with the highest leads next. The leader stays.',
      { min: 0, max: 1_000, fallback: 0 },
    ),
    wait: patience('How long to wait to lead, or forever. Default: forever.'),
    again: toggle('Stand again when the lead was lost and the job stopped, in place of exiting with 76.'),
    ...JOB_OPTIONS,
  },
  runs: true,
  examples: ['postern elect writer --value "$POD_IP:8080" --again -- ./server'],
  exits: JOB_EXITS,
});
