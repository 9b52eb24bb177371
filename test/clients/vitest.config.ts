/**
 * Clients that generators make of the contract: not part of `npm test`, because they need npm's registry, Go, and
 * Python with pip. `npm run clients` runs them.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig, mergeConfig } from 'vitest/config';
import config from '../../vitest.config.js';

const { test } = mergeConfig(config, defineConfig({}));

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: { ...test, include: ['test/clients/*.clients.ts'] },
});
