/** The process: settings, gateway or workers that have one each, signals. With `make-key` it makes an API key instead. */
import cluster from 'node:cluster';
import { MAKE_KEY_USAGE, makeKey } from './cli/make-key.js';
import { ConfigError, loadConfig, settingsHelp } from './config.js';
import { startGateway } from './gateway.js';
import { createLog } from './log.js';
import { superviseWorkers } from './workers/supervisor.js';

const [command, ...args] = process.argv.slice(2);

if (process.argv.includes('--help')) {
  console.log(`Commands (without one the gateway starts):\n  ${MAKE_KEY_USAGE}\n\n${settingsHelp()}`);
  process.exit(0);
}

if (command === 'make-key') {
  try {
    process.stdout.write(makeKey(args));
    process.exit(0);
  } catch (error) {
    console.error(`${(error as Error).message}.\n\n${MAKE_KEY_USAGE}`);
    process.exit(1);
  }
}

try {
  const { config, warnings } = loadConfig();
  const log = createLog(config);
  const { logger } = log;
  if (cluster.isPrimary) for (const warning of warnings) logger.warn(warning);
  // A defect must not take every client of the replica with it; what failed has been answered by then.
  process.on('unhandledRejection', (error) =>
    logger.error({ err: error }, 'a promise was rejected and nobody was told'),
  );
  if (config.workers > 1 && cluster.isPrimary) {
    const code = await superviseWorkers(config.workers, logger);
    log.flush();
    process.exit(code);
  }
  const gateway = await startGateway({ config, logger });
  logger.info({ url: gateway.url, opsPort: gateway.opsPort }, 'listening');
  const stop = (signal: NodeJS.Signals): void => {
    logger.info({ signal }, 'stopping');
    void gateway.stop().then(() => {
      log.flush();
      process.exit(0);
    });
  };
  process.on('SIGTERM', stop);
  // A terminal sends this to all processes at once; a worker is told by its supervisor.
  process.on('SIGINT', cluster.isWorker ? () => undefined : stop);
} catch (error) {
  // Before there is a log, and for a person: sentences, not a stack.
  console.error(error instanceof ConfigError ? error.message : error instanceof Error ? error.message : error);
  process.exit(1);
}
