#!/usr/bin/env node
/** Where the command begins. The guardian of a job takes longest to start: it starts before anything else is loaded. */
import { startAhead } from './process/guarded.js';

const RUN_A_JOB = ['lock', 'elect'];

if (RUN_A_JOB.includes(process.argv[2] ?? '') && process.argv.includes('--')) startAhead();
await import('./run.js');
