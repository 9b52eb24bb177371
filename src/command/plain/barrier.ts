/** `postern barrier wait`, `raise`, `lift`. */
import type { GivenFor } from '../arguments/command.js';
import { showDuration } from '../arguments/duration.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/barrier.js';
import { EXIT, Failure } from '../exit.js';
import { withClient } from './client.js';

export async function wait(given: GivenFor<typeof descriptions.wait>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { wait: waitMs = Infinity } = given.values;
  const lifted = await withClient(given, (postern) => postern.barrier(name).wait({ waitMs }));
  if (lifted) return told(given, name, false);
  const sentence = `the barrier "${name}" was not lifted within ${showDuration(waitMs)}`;
  throw new Failure(EXIT.notAcquired, sentence, { code: 'timeout', name });
}

export async function raise(given: GivenFor<typeof descriptions.raise>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  await withClient(given, (postern) => postern.barrier(name).raise());
  return told(given, name, true);
}

export async function lift(given: GivenFor<typeof descriptions.lift>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  await withClient(given, (postern) => postern.barrier(name).lift());
  return told(given, name, false);
}

/** To people the exit code says it. */
function told({ output }: Pick<GivenFor<typeof descriptions.lift>, 'output'>, name: string, raised: boolean): number {
  if (output.json) output.result({ name, raised }, () => '');
  return EXIT.ok;
}
