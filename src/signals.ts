/**
 * The signals that stop this process. The first module that is loaded: the others take a second on a busy machine, and
 * the first process of a container gets no signal that it does not listen to.
 */
import cluster from 'node:cluster';

/** Until there is something to stop, the process just ends. */
let stop = (_signal: NodeJS.Signals): void => process.exit(0);

process.on('SIGTERM', (signal) => stop(signal));
process.on('SIGINT', (signal) => {
  // A terminal sends it to all processes at once; the supervisor stops its workers itself.
  if (!cluster.isWorker) stop(signal);
});

/** @param act called with every signal from now on */
export function onStop(act: (signal: NodeJS.Signals) => void): void {
  stop = act;
}
