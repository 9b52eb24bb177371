/** Before each test file: files that share a process share neither the log nor the secrets that must not be in it. */
import { runLog } from './run-log.js';

runLog.begin();
