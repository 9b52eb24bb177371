/**
 * The console in a real browser: not part of `npm test`, because it needs Chromium. `npm run browser` runs it;
 * `UPDATE_IMAGES=1` makes the pictures of the documentation anew.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig, mergeConfig } from 'vitest/config';
import config from '../../vitest.config.js';

const { test } = mergeConfig(config, defineConfig({}));

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: { ...test, include: ['test/browser/*.browser.ts'] },
});
