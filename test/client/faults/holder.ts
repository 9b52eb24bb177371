/**
 * A program that holds a lock whenever it can, and works for as long as its signal lets it: what the faults are done
 * to. It is told what to do on standard input, and tells what happened on standard output, in lines of JSON. Its times
 * are those of the monotonic clock of the machine, which all processes share.
 */
import { createInterface } from 'node:readline';
import { hrtime, stdin, stdout } from 'node:process';
import { Postern, type HoldLostError } from '../../../src/client/index.js';

const [, , urls = '', name = '', ttlMs = ''] = process.argv;

const at = (): number => Number(hrtime.bigint()) / 1e6;
const tell = (event: object): void => void stdout.write(`${JSON.stringify(event)}\n`);

let alive = true;
createInterface({ input: stdin }).on('line', (line) => {
  const { block, isAlive } = JSON.parse(line) as { block?: number; isAlive?: boolean };
  if (isAlive !== undefined) alive = isAlive;
  // As a long garbage collection would: no timer runs, and no answer is read.
  if (block !== undefined) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, block);
});

const postern = new Postern({ urls: urls.split(','), ttlMs: Number(ttlMs), alive: () => alive, patienceMs: 500 });
for (;;) {
  try {
    const hold = await postern.lock(name).acquire({ waitMs: Infinity });
    const { fencingToken, signal } = hold;
    let firedAt: number | undefined;
    signal.addEventListener('abort', () => (firedAt = at()));
    tell({ event: 'held', fencingToken, at: at() });
    let workedAt = at();
    for (;;) {
      const now = at(); // before it looks: stopped between the two, it does not claim to have worked later
      if (signal.aborted) break;
      workedAt = now;
      // Half of its turns come from answers and half from timers, which is the order in which a pause ends.
      await new Promise((resolve) => (Math.random() < 0.5 ? setImmediate(resolve) : setTimeout(resolve, 1)));
    }
    tell({ event: 'gone', fencingToken, at: firedAt, workedAt, cause: (signal.reason as HoldLostError).cause });
    await hold.release();
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 50)); // nobody serves it: the fault is not over
  }
}
