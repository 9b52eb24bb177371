/**
 * Clients that generators make of the contract: not part of `npm test`, because they need npm's registry, Go, and
 * Python with pip. `npm run clients` runs them.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { each, whole } from '../../vitest.config.js';

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: { ...each, ...whole, include: ['test/clients/*.clients.ts'] },
});
