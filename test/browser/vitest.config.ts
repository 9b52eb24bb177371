/**
 * The pages of a replica in a real browser: not part of `npm test`, because they need Chromium (`CHROMIUM`, by default
 * `/usr/bin/chromium`). `npm run browser` runs them.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { each, whole } from '../../vitest.config.js';

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    ...each,
    ...whole,
    setupFiles: ['test/support/new-file.ts'],
    // As those of `npm test` that share a process: to load the gateway anew for each file is a tenth of what they cost.
    isolate: false,
    include: ['test/browser/**/*.test.ts', 'test/browser/*.browser.ts'],
    exclude: ['**/node_modules/**'],
  },
});
