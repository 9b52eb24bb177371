/** What a thing costs of the processor, also on a machine that others keep busy, and what it keeps of memory. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const TRIES = 3;

/** The least of a few runs, in milliseconds: collections of garbage and compilers have their time too. */
export async function cpuMsOf(run: () => unknown, enoughMs = 0): Promise<number> {
  let least = Infinity;
  for (let one = 0; one < TRIES && least > enoughMs; one += 1) {
    const before = process.cpuUsage();
    await run();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}

/** Of this process, once its garbage is collected. */
export function memoryInUse(): NodeJS.MemoryUsage {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage();
}
