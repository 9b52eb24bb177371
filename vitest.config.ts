import { env } from 'node:process';
import { defineConfig } from 'vitest/config';
import { timing } from './test/support/timing.js';

/** A file for the results as JSON, beside what is printed. */
const resultsFile = env['TEST_RESULTS'];

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**', 'test/browser/**'],
    globalSetup: ['test/support/global-setup.ts'],
    // A process per file: sessions, timers and sockets of one file cannot reach into the next.
    pool: 'forks',
    // Each file may run servers of its own; more files at once than this turn deadlines into luck on a small machine.
    maxWorkers: Number(env['TEST_WORKERS'] ?? 2),
    testTimeout: timing.testMs,
    hookTimeout: timing.processMs,
    teardownTimeout: timing.processMs,
    // A test that passes at the second try has found something.
    retry: 0,
    sequence: { hooks: 'stack' },
    reporters: resultsFile ? ['default', 'json'] : ['default'],
    ...(resultsFile ? { outputFile: { json: resultsFile } } : {}),
  },
});
