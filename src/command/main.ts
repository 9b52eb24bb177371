#!/usr/bin/env node
/**
 * Where the command begins. The guardian of a job takes longest to start: it starts before anything else is loaded, and
 * before it is known whether there will be a job.
 */
import { Guardian } from './process/guarded.js';

const RUN_A_JOB = ['lock', 'once', 'elect', 'group', 'barrier'];

const ahead = RUN_A_JOB.includes(process.argv[2] ?? '') && process.argv.includes('--') ? new Guardian() : undefined;
const { main } = await withoutStandardError(() => import('./run.js'));
await main(ahead);

/**
 * Node 24 asks standard error for its colours when `node:http` is imported. That opens the stream, which makes a pipe
 * non-blocking, also for the job that shares it, whose output is cut. So it finds none meanwhile.
 */
async function withoutStandardError<T>(load: () => Promise<T>): Promise<T> {
  const own = Object.getOwnPropertyDescriptor(process, 'stderr') as PropertyDescriptor;
  Object.defineProperty(process, 'stderr', { configurable: true, value: undefined });
  try {
    return await load();
  } finally {
    Object.defineProperty(process, 'stderr', own);
  }
}
