/** Housekeeping of groups that crosses those who come back. */
import { expect, test } from 'vitest';
import { TidyGroups } from '../../../../src/recipes/group/tidy.js';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { startPair } from '../../../support/start-gateway.js';
import { join, leaseFor, leave, sharesOf } from '../client.js';

test('a division that was told stays, though housekeeping had begun to remove those of the empty group', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.b);
  // Whoever was there keeps its parts: a division from nothing would be another one.
  await join(pair.b, 'team', 'w2', lease);
  await sharesOf(pair.b, 'team', 6);
  await leave(pair.b, 'team', 'w2', lease);
  const { context } = pair.a.gateway;
  const { control } = context;
  const remove = control.delete.bind(control);
  let told: unknown;
  control.delete = async (...what) => {
    control.delete = remove;
    for (const member of ['w1', 'w2']) await join(pair.b, 'team', member, lease);
    told = await sharesOf(pair.b, 'team', 6);
    return remove(...what);
  };
  await new TidyGroups(context, 0).sweep(new Sweep(context, () => false));
  expect(told).toMatchObject({ memberCount: 2 });
  expect(await sharesOf(pair.b, 'team', 6)).toEqual(told);
});
