/** The process: settings, gateway, signals. */
import { ConfigError, loadConfig, settingsHelp } from './config.js';
import { startGateway } from './gateway.js';
import { createLog } from './log.js';

if (process.argv.includes('--help')) {
  console.log(settingsHelp());
  process.exit(0);
}

try {
  const { config, warnings } = loadConfig();
  const log = createLog(config);
  const { logger } = log;
  for (const warning of warnings) logger.warn(warning);
  // A defect must not take every client of the replica with it; what failed has been answered by then.
  process.on('unhandledRejection', (error) =>
    logger.error({ err: error }, 'a promise was rejected and nobody was told'),
  );
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
  process.on('SIGINT', stop);
} catch (error) {
  // Before there is a log, and for a person: sentences, not a stack.
  console.error(error instanceof ConfigError ? error.message : error instanceof Error ? error.message : error);
  process.exit(1);
}
