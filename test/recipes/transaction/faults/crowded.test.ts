/** A replica that looks after as many transactions as it can. */
import { expect, test } from 'vitest';
import { begin } from '../client.js';
import { isDecided } from '../decided.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { TransactionWatch } from '../../../../src/recipes/transaction/watch.js';
import type { TransactionRef } from '../../../../src/recipes/transaction/record.js';

const NAMES = ['1', '2', '3', '4'];

test('the namespace with the most open transactions makes room for others, its latest deadline first', async () => {
  await using replica = await startReplica();
  const { context, recipes } = replica.gateway;
  const { transactions } = recipes.transaction;
  transactions.watch.stop();
  const faults: unknown[] = [];
  const watch = new TransactionWatch(context, transactions.decisions, (error) => faults.push(error), 3);
  const inMs = (ms: number): number => context.zooKeeperClock.now() + ms;
  const crowd = NAMES.map((digit) => transactions.ref('crowd', digit.repeat(32)));
  const [far, near, farther, nearer] = crowd as [TransactionRef, TransactionRef, TransactionRef, TransactionRef];
  watch.attend(far, inMs(300_000));
  watch.attend(near, inMs(200_000));
  watch.attend(transactions.ref('crowd', '5'.repeat(32)), inMs(250_000));
  watch.attend(farther, inMs(400_000)); // its own namespace has the most, and it is the last of it
  expect(watch.size).toBe(3);

  const id = await begin(replica, ['a'], { deadlineMs: 1_000 });
  watch.attend(transactions.ref('default', id), inMs(1_000)); // in the place of `far`
  watch.attend(nearer, inMs(100_000)); // in the place of the one that is due after 250 s
  expect(watch.size).toBe(3);
  await eventually('it is decided without anybody asking', () => isDecided(replica, id));
  await eventually('it is forgotten', () => watch.size === 2);
  const isAttended = (ref: TransactionRef): boolean => {
    const { size } = watch;
    watch.forget(ref);
    return watch.size < size;
  };
  expect(crowd.map(isAttended)).toEqual([false, true, false, true]);
  expect(faults).toEqual([]);
  watch.stop();
});
