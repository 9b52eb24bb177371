/**
 * The pages of a replica in a real browser: not part of `npm test`, because they need Chromium (`CHROMIUM`, by default
 * `/usr/bin/chromium`). `npm run browser` runs them.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig, mergeConfig } from 'vitest/config';
import config from '../../vitest.config.js';

const { test } = mergeConfig(config, defineConfig({}));

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    ...test,
    include: ['test/browser/**/*.test.ts', 'test/browser/*.browser.ts'],
    exclude: ['**/node_modules/**'],
  },
});
