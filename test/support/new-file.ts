/** Files that share a process share neither the log nor the secrets that must not be in it, and leave no replica. */
import { afterAll } from 'vitest';
import { runLog } from './run-log.js';

afterAll(() => runLog.end());
