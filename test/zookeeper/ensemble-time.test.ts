/** Asking for the ensemble's time, by a write to a node of its own. */
import { expect, test } from 'vitest';
import { askTime, ensembleNow, preciseClock } from '../../src/zookeeper/ensemble-time.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { controlIn, within, type TestControl } from '../support/zookeeper/sessions.js';

const CLOCK = '/gateway/clock';

function contextOf(control: TestControl): Parameters<typeof preciseClock>[0] {
  return { control, zooKeeperClock: control.view.clock, layout: { clock: CLOCK } };
}

async function timesAsked(control: TestControl): Promise<number | undefined> {
  return (await control.exists(CLOCK, within()))?.version;
}

test('the node is made when it is missing, also again, and each answer is the time of that write', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const context = contextOf(control);
  const first = await askTime(context, within());
  const second = await askTime(context, within());
  expect(second.mzxid).toBeGreaterThan(first.mzxid);
  expect(second.mtime).toBeGreaterThanOrEqual(first.mtime);
  await control.delete(CLOCK, undefined, within());
  const third = await askTime(context, within());
  expect(third.czxid).toBeGreaterThan(second.mzxid);
  expect(await control.exists(CLOCK, within())).toEqual(third);
});

test('who knows the time does not ask, unless it is known too badly for what is to be done', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const context = contextOf(control);
  await askTime(context, within());
  await askTime(context, within());
  const asked = await timesAsked(control);
  expect(Math.abs((await ensembleNow(context, within())) - Date.now())).toBeLessThan(10_000);
  expect(await timesAsked(control)).toBe(asked);

  const unknown = { errorMs: Infinity, known: false, now: () => 7 };
  const fresh = { ...context, zooKeeperClock: unknown as unknown as typeof context.zooKeeperClock };
  expect(await ensembleNow(fresh, within())).toBe(7);
  expect(await timesAsked(control)).toBe((asked as number) + 1);
  const vague = { ...context, zooKeeperClock: { errorMs: 51 } as unknown as typeof context.zooKeeperClock };
  await preciseClock(vague, within());
  expect(await timesAsked(control)).toBe((asked as number) + 2);
});
