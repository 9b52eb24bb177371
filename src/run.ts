/**
 * The process: settings, signals, and one gateway, or workers with a gateway each. `make-key` makes an API key instead.
 */
import cluster from 'node:cluster';
import { setImmediate } from 'node:timers/promises';
import { MAKE_KEY_USAGE, makeKey, UsageError } from './cli/make-key.js';
import { ConfigError, loadConfig, settingsHelp } from './config.js';
import { startGateway } from './gateway.js';
import { createLog, type Log } from './log.js';
import { onStop } from './signals.js';
import { superviseWorkers } from './workers/supervisor.js';

/** "Wrong usage" in sysexits.h. */
const USAGE = 64;
const COMMANDS = `Commands (without one the gateway starts):\n  ${MAKE_KEY_USAGE}`;

const [command, ...args] = process.argv.slice(2);

if (process.argv.includes('--help')) {
  console.log(`${COMMANDS}\n\n${settingsHelp()}`);
  process.exit(0);
}

if (command === 'make-key') {
  try {
    process.stdout.write(makeKey(args));
    process.exit(0);
  } catch (error) {
    console.error(`${(error as Error).message}.\n\n${MAKE_KEY_USAGE}`);
    process.exit(error instanceof UsageError ? USAGE : 1);
  }
} else if (command !== undefined) {
  console.error(`There is no command "${command}".\n\n${COMMANDS}\n  --help\n      Shows these and all settings.`);
  process.exit(USAGE);
}

// Since Node 22 all modules are loaded in one turn of the event loop: signals that came meanwhile are told in the next.
await setImmediate();

try {
  const { config, warnings } = loadConfig();
  const log = createLog(config);
  const { logger } = log;
  if (cluster.isPrimary) for (const warning of warnings) logger.warn(warning);
  // One defect must not take down every client of the replica. The failed request has been answered by then.
  process.on('unhandledRejection', (error) => logger.error({ err: error }, 'unhandled promise rejection'));
  if (config.workers > 1 && cluster.isPrimary) {
    const code = await superviseWorkers(config, logger);
    await leave(log, code);
  }
  const gateway = await startGateway({ config, logger });
  logger.info({ url: gateway.url, opsPort: gateway.opsPort }, 'listening');
  let stopping = false;
  onStop((signal) => {
    // One signal may reach a worker twice: a process manager signals the whole group, and the supervisor passes it on.
    // A worker that should end at once is killed by the supervisor.
    if (stopping && cluster.isWorker) return;
    stopping = true;
    logger.info({ signal }, 'stopping');
    void gateway.stop().then(() => leave(log, 0));
  });
} catch (error) {
  // There is no log yet, and a person is reading: sentences, not a stack.
  console.error(error instanceof ConfigError ? error.message : error instanceof Error ? error.message : error);
  process.exit(1);
}

async function leave(log: Log, code: number): Promise<void> {
  if (await log.flush()) process.exit(code);
  // A signal does not wait for the write; but the first process of a container gets none that it does not listen to.
  if (process.pid === 1) process.abort();
  process.removeAllListeners('SIGTERM').kill(process.pid, 'SIGTERM');
}
