/** `postern schedule put`, `rm`. */
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/schedule.js';
import { EXIT, UsageError } from '../exit.js';
import { bodyOf } from './body.js';
import { readInput, withClient } from './client.js';

export async function put(given: GivenFor<typeof descriptions.put>): Promise<number> {
  const [name = '', cron = '', text] = given.arguments;
  checkName('NAME', name);
  const { queue, zone, as, misfire, priority, paused } = given.values;
  if (queue === undefined) throw new UsageError('--queue is missing: say which queue the messages go to');
  checkName('--queue', queue);
  const body = bodyOf(text ?? readInput().toString(), as);
  const to = { queue, body, ...(priority !== undefined && { priority }) };
  const settings = { cron, to, misfire, paused, ...(zone !== undefined && { timeZone: zone }) };
  const put = await withClient(given, (postern) =>
    postern.request('PUT /v1/schedules/{name}', { path: { name }, body: settings }),
  );
  // A key that may not read schedules is not told.
  given.output.result(put.body, () => (paused ? 'paused' : (put.body.dueAt ?? '')));
  return EXIT.ok;
}

export async function rm(given: GivenFor<typeof descriptions.rm>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  await withClient(given, (postern) => postern.request('DELETE /v1/schedules/{name}', { path: { name } }));
  return EXIT.ok;
}
