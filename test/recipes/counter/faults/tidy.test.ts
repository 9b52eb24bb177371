/** Housekeeping of the marks by which repeated additions are recognised. */
import { expect, test } from 'vitest';
import { TidyMarks } from '../../../../src/recipes/housekeeping/marks.js';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { passed } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';

const MARK_MS = 100;

test('a replica that keeps house again counts the age of marks anew: another one may have removed them, and they were made again', async () => {
  await using replica = await startReplica();
  const { context } = replica.gateway;
  const { control, layout } = context;
  const body = { by: 1, requestId: 'r1' };
  await replica.expect(200, 'POST', '/v1/counters/c/add', { body });
  const marks = (): Promise<number> => countBelow(control, layout.counterMarks('default'));
  const made = await marks();
  const chore = new TidyMarks((namespace) => layout.counterMarks(namespace), MARK_MS);
  const sweep = new Sweep(context, () => false);
  await chore.sweep(sweep);
  chore.handedOver();
  await passed(2 * MARK_MS);
  await chore.sweep(sweep);
  expect(await marks()).toBe(made);
  await passed(2 * MARK_MS);
  await chore.sweep(sweep);
  expect(await marks()).toBe(made - 1);
});
