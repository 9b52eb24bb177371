/**
 * Interoperability with real libraries: not part of `npm test`, because they need Maven and a JDK, Python with pip, and
 * Go. `npm run interop` runs them.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { each, whole } from '../../vitest.config.js';
import { LIBRARIES } from './libraries.js';

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    ...each,
    ...whole,
    include: ['test/interop/*.interop.ts'],
    globalSetup: ['test/interop/global-setup.ts'],
    // They wait for each other's sessions to expire more than they work.
    maxWorkers: LIBRARIES.length,
  },
});
