/** What the log says of the file of ensembles: an error only where somebody should look into it. */
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { runLog } from '../support/run-log.js';
import { scaled, timing } from '../support/timing.js';
import { reasonsOf, startTwo, untilInForce } from './two.js';

/** What has been logged at this level of a refused file. */
function refusals(level: string): string[] {
  return runLog
    .lines()
    .filter((line) => line['level'] === level)
    .map((line) => String(line['msg']))
    .filter((message) => message.startsWith('the file of ensembles is refused'));
}

test(
  'a file that is refused for a moment is no error, and one that stays so is',
  { timeout: scaled(60_000) },
  async () => {
    await using two = await startTwo();
    const path = two.file(1, { orders: 'west' });
    await using replica = await two.start(path);
    await using slow = await two.start(path, { pollMs: 1_500 });
    const both = [replica, slow];
    for (const one of both) await untilInForce(one, 1);
    two.file(2, { orders: 'west', more: 'west' });
    for (const one of both) {
      await untilInForce(one, 2);
      await eventually('its file is in force', async () => (await reasonsOf(one)).length === 0);
    }
    expect(refusals('error')).toEqual([]);

    const old = /The file has the version 1, and version 2 is in force/;
    two.file(1, { orders: 'west' });
    await eventually('it is logged', () => refusals('info').some((message) => old.test(message)));
    await eventually('it is an error', () => refusals('error').some((message) => old.test(message)), {
      withinMs: timing.processMs,
    });
  },
);
