/** The subcommand that runs a job once for all machines that ask. */
import { command } from '../arguments/command.js';
import { duration, integer, patience, text, toggle } from '../arguments/option.js';
import { JOB_EXITS, JOB_OPTIONS } from './lock.js';

/** As the contract has it. */
const ATTEMPTS_MAX = 10;

export const once = command({
  name: 'once',
  summary: 'Run a command once, however many machines ask for it',
  description: `Asks for the occurrence of the run NAME, and runs the job behind "--" if nobody has done it and nobody is doing it. The \
occurrence is done when the job exits with 0. Otherwise, and when the machine dies, the attempt has failed: the next \
who asks gets the next one, until there were as many as --max-attempts allows.

Which occurrence that is, the gateway finds by the time: the last one, if it runs or was first started less than --within ago, and \
otherwise a new one, which is called by the time on ZooKeeper's clock. So a line in the crontabs of five machines runs once each time, \
whatever its schedule, if their clocks differ by less than --within and two times of the schedule lie further apart; and a run that takes longer than its interval is \
not overtaken by the next one. Where each time has a name of its own, such as a date, give it with --occurrence: then it is done once, whenever it is asked for.

The job finds its fencing token in POSTERN_FENCING_TOKEN, the occurrence in POSTERN_OCCURRENCE and the number of the attempt in \
POSTERN_ATTEMPT. It is kept and stopped as under "postern lock": if its lease may be lost, it is dead before another machine can be given \
the next attempt.`,
  arguments: [{ name: 'NAME', sentence: 'the run, which all its occurrences share' }],
  options: {
    occurrence: text(
      'TEXT',
      'Which occurrence it is, written in the same way on all machines: 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : + -. In place of --within.',
    ),
    within: duration(
      'Starts that come so soon after the first one are for the same occurrence: longer than the clocks of the machines differ, and shorter than the interval of the schedule. Default: 30s.',
    ),
    'max-attempts': integer('How many attempts the occurrence may have, on all machines together.', {
      min: 1,
      max: ATTEMPTS_MAX,
      fallback: 3,
    }),
    wait: patience(
      'How long to wait while another machine runs it, or forever, to take over if that fails or dies. Default: 0.',
    ),
    note: text('TEXT', 'Shown with the occurrence when the job has done it, up to 200 characters.'),
    quiet: toggle('Say nothing when another machine has done it or is doing it.'),
    ...JOB_OPTIONS,
  },
  runs: true,
  examples: [
    'postern once report -- ./report.sh                                # in the crontabs of five machines',
    'postern once backup --within 1h --max-attempts 1 -- ./backup.sh',
    'postern once invoices --occurrence "$(date +%Y-%m)" --wait 2h -- ./invoices.sh',
  ],
  exits: {
    ...JOB_EXITS,
    0: 'the job has done it; or another machine has done it or, without --wait, is doing it',
    74: 'all attempts at this occurrence have failed; the job did not run',
    75: 'another machine was still doing it at the end of --wait; the job did not run',
    76: 'the lease was lost or the job ran for too long, and it was stopped; or its end could not be recorded',
  },
});
