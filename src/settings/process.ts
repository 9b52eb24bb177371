/** The life of a process, its log and its files. */
import { HOUR, SECOND } from '../time.js';
import { integer, matching, oneOf, type Setting } from './setting.js';

/** Balancers ask every second or two whether a replica is ready, and believe the second refusal. */
const DRAIN_PAUSE_MS = 5 * SECOND;
const DRAIN_MS = 10 * SECOND;
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

export const PROCESS = {
  drainPauseMs: integer(
    {
      env: 'POSTERN_DRAIN_PAUSE_MS',
      sentence:
        'How long a stopping replica reports that it is not ready, but keeps serving, before it drains. On a loopback address it is 0 unless set.',
    },
    { fallback: DRAIN_PAUSE_MS, min: 0, max: HOUR, unit: 'ms' },
  ),
  workers: integer(
    {
      env: 'POSTERN_WORKERS',
      sentence: 'How many processes serve this replica, to use more than one core; its limits are divided among them.',
    },
    { fallback: 1, min: 1, max: 64 },
  ),
  drainMs: integer(
    { env: 'POSTERN_DRAIN_MS', sentence: 'How long a stopping replica lets requests finish before it cuts them off.' },
    { fallback: DRAIN_MS, min: 0, max: HOUR, unit: 'ms' },
  ),
  logLevel: oneOf(
    {
      env: 'POSTERN_LOG_LEVEL',
      sentence: 'The lowest level of log lines to write; the log is JSON on standard output.',
    },
    LOG_LEVELS,
    'info',
  ),
  dataDir: matching(
    { env: 'POSTERN_DATA_DIR', sentence: 'Directory in which `npm start` keeps the data of its own ZooKeeper.' },
    'a path',
    /./,
    '.data',
  ),
} satisfies Record<string, Setting<unknown>>;
