import { env } from 'node:process';
import { defineConfig } from 'vitest/config';
import { timing } from './test/support/timing.js';

/** A file for the results as JSON, beside what is printed. */
const resultsFile = env['TEST_RESULTS'];
/** Patterns of files that are left out, with commas between them: `--exclude` does not reach projects. */
const leftOut = env['TEST_EXCLUDE']?.split(',') ?? [];

const NO_TESTS = ['**/node_modules/**', 'test/browser/**', ...leftOut];

/** What measures or floods its process, and what fills it for minutes. */
const ALONE = [
  'test/**/{fuzz,scale,scripts,upgrade}/**/*.test.ts',
  'test/**/*-cost.test.ts',
  'test/frame/**/{cost-of-checks,overload}.test.ts',
];

/** Each file may run servers of its own; more files at once than this turn deadlines into luck on a small machine. */
const WORKERS = Number(env['TEST_WORKERS'] ?? 2);
/** What measures and floods leaves no processor idle; most of the others wait. */
const WORKERS_ALONE = Math.min(WORKERS, 3);

/** Of every test, whatever the run. */
export const each = {
  pool: 'forks' as const,
  // As the image runs the gateway: what a test asks of it takes a tenth less CPU.
  execArgv: ['--no-allocation-site-pretenuring'],
  maxWorkers: WORKERS,
  testTimeout: timing.testMs,
  hookTimeout: timing.processMs,
  teardownTimeout: timing.processMs,
  // A test that passes at the second try has found something.
  retry: 0,
  sequence: { hooks: 'stack' as const },
};

/** Of a run, whatever its tests. */
export const whole = {
  globalSetup: ['test/support/global-setup.ts'],
  reporters: resultsFile ? ['default', 'json'] : ['default'],
  ...(resultsFile ? { outputFile: { json: resultsFile } } : {}),
};

export default defineConfig({
  test: {
    ...each,
    ...whole,
    projects: [
      // A process per file: sessions, timers and sockets of one file cannot reach into the next.
      {
        test: {
          ...each,
          name: 'alone',
          include: ALONE,
          exclude: NO_TESTS,
          maxWorkers: WORKERS_ALONE,
          sequence: { ...each.sequence, groupOrder: 0 },
        },
      },
      // To load the gateway anew for each file would be a third of what these cost; what a test leaves behind fails it.
      {
        test: {
          ...each,
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...NO_TESTS, ...ALONE],
          setupFiles: ['test/support/new-file.ts'],
          isolate: false,
          sequence: { ...each.sequence, groupOrder: 1 },
        },
      },
    ],
  },
});
