/** A wall clock that jumps: a module that is loaded before the replica reads from a file how far it is off. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ReplicaProcess } from './replica-process.js';

export const CLOCK_MODULE = fileURLToPath(new URL('jumping-clock.mjs', import.meta.url));
/** The variable that names the file. */
export const CLOCK_FILE = 'TORTURE_CLOCK_FILE';

export function clockFileOf(directory: string, replica: number): string {
  return join(directory, `clock-${replica}`);
}

interface Staged {
  readonly directory: string;
  readonly replicas: readonly ReplicaProcess[];
}

/** @param ms ahead of the machine's clock; 0: as it is */
export async function jumpClock(stage: Staged, replica: ReplicaProcess, ms: number): Promise<void> {
  await writeFile(clockFileOf(stage.directory, stage.replicas.indexOf(replica) + 1), String(ms));
}
