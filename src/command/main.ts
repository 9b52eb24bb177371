#!/usr/bin/env node
/**
 * Where the command begins. The guardian of a job takes longest to start: it starts before anything else is loaded, and
 * before it is known whether there will be a job.
 */
import { Guardian } from './process/guarded.js';

const RUN_A_JOB = ['lock', 'elect', 'group', 'barrier'];

const ahead = RUN_A_JOB.includes(process.argv[2] ?? '') && process.argv.includes('--') ? new Guardian() : undefined;
const { main } = await import('./run.js');
await main(ahead);
