/** The subcommand that carries the lease of the program beside it. */
import { command } from '../arguments/command.js';
import { duration, file, integer, list, text } from '../arguments/option.js';
import { JOB_OPTIONS } from './lock.js';

const HOOK = 'POST=URL|exec=COMMAND';

export const sidecar = command({
  name: 'sidecar',
  summary: "Carry the lease of the program beside it, and answer for it on this machine's loopback",
  description: `Runs beside a program, in its pod or on its machine: takes a lease while the program is well, keeps it alive, and stands for \
election, is a member of groups and holds locks with it. The program itself sends no heartbeat and knows no lease token: it asks \
on loopback.

GET /leader is answered with 200 while this program leads, and with 503 otherwise; the body says who leads. GET /me shows all that is \
held. POST /locks/NAME/acquire and /locks/NAME/release take {"waitMs": …} and {"holdId": …}. GET /healthz and GET /readyz are for probes, \
and say nothing of who leads.

When the program is not well any more, /leader turns to 503, --on-lost runs, and the lease is ended, in this order: its heir is elected \
later than that. A program that has ended is noticed at once, one that does not answer after --health-failures checks. If no gateway answers, /leader turns to \
503 two thirds of the TTL after the last answered heartbeat was sent, and the heir is elected no earlier than a whole TTL after it.

A hook is POST=URL, which is sent JSON, or exec=COMMAND, a program and its arguments separated by spaces, which finds the same in its environment \
(POSTERN_EVENT, POSTERN_ELECTION, POSTERN_FENCING_TOKEN, POSTERN_HOLD_ID, POSTERN_REASON, POSTERN_KEY, POSTERN_FILE), and not POSTERN_API_KEY. No shell is involved.`,
  arguments: [],
  options: {
    health: text(
      'URL',
      'Where the program says that it is well, with a status of 200 to 399; or none, if its health is not checked. Required.',
    ),
    'health-interval': duration(
      'How often it is asked; after a failed check within ten seconds, and every second until it is well.',
      '1s',
    ),
    'health-timeout': duration('How long an answer may take.', '1s'),
    'health-failures': integer('After how many checks in a row without such an answer it is not well any more.', {
      min: 1,
      max: 100,
      fallback: 3,
    }),
    elect: text('NAME', 'The election to stand in.'),
    preference: integer('How much it is preferred there: of those who wait, the one with the highest leads next.', {
      min: 0,
      max: 1_000,
    }),
    value: text('TEXT', 'What others see of this program in the election and in the groups, such as its address.'),
    group: list('NAME', 'Groups to be a member of.'),
    'on-elected': text(
      HOOK,
      'Runs when elected; /leader is 200 when it has succeeded. If it fails, the lead is given up.',
    ),
    'on-lost': text(
      HOOK,
      'Runs when the lead is over or about to be given up, once for every run of --on-elected. That waits for it.',
    ),
    file: file('The present leader as JSON, replaced whenever it changes.'),
    render: list('KEY=FILE', 'Write the value of a key of the configuration to a file, and again after every change.'),
    'render-mode': text(
      'MODE',
      'Who may read and write a file that --render makes, as chmod has it. One that is there keeps its mode. Default: 600.',
    ),
    'on-render': text(HOOK, 'Runs when a file of --render has got another value; not when there was none before.'),
    'hook-timeout': duration('How long a hook may take before it is stopped, and has failed.', '5s'),
    listen: text(
      'ADDRESS',
      'Where the program asks; a loopback address, because there is no authentication. Default: 127.0.0.1:7071.',
    ),
    'listen-probes': text(
      'ADDRESS',
      'Answer GET /healthz, /readyz and /leader, and nothing else, there as well, such as 0.0.0.0:7072.',
    ),
    ttl: JOB_OPTIONS.ttl,
    label: JOB_OPTIONS.label,
  },
  examples: [
    'postern sidecar --health http://127.0.0.1:8080/healthz --elect writer --value "$POD_IP:8080"',
    "postern sidecar --health none --render app/settings=/shared/settings.json --on-render 'exec=/usr/bin/pkill -HUP app'",
  ],
  exits: { 0: 'it was told to end, and has given everything back' },
});
