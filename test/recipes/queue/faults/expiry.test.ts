/** The removal of an expired message crosses with what else becomes of it, or is cut off in the middle. */
import { describe, expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { removeExpired, type Sealed } from '../../../../src/recipes/queue/admin/expired.js';
import { SEGMENT_MESSAGES } from '../../../../src/recipes/queue/paths.js';
import { HOUR } from '../../../../src/time.js';
import { eventually } from '../../../support/eventually.js';
import { beforeWrite, soon } from '../../../support/scene.js';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { claimOne } from '../claims.js';
import { configure, peek, pushBodies, queueOf, settleAll } from '../client.js';

const DEAD = { deadLetterExpired: true, deadLetterQueue: 'dead' };

/** Without housekeeping but that which a test asks for. */
function quietPair(): Promise<Pair> {
  return startPair({ housekeeping: { ...HOUSEKEEPING_TIMING, everyMs: HOUR } });
}

/** @param listed is told of each directory that is listed */
async function sweep(
  { gateway }: Replica,
  before?: Sealed,
  listed: (path: string) => void = () => undefined,
): Promise<Sealed> {
  const queue = await gateway.recipes.queue.queues.look('default', 'work', soon());
  if (queue === undefined) throw new Error('there is no queue');
  const round = new Sweep(gateway.context, () => false);
  const children = round.children.bind(round);
  round.children = (path) => {
    listed(path);
    return children(path);
  };
  return removeExpired(queue, round, before);
}

/** Its clock is so late that nothing expires there. */
function delayClock({ gateway }: Replica): void {
  gateway.context.zooKeeperClock.now = () => 0;
}

async function pushExpired({ a }: Pair, count: number): Promise<void> {
  await pushBodies(
    a,
    'work',
    Array.from({ length: count }, (_, i) => i),
    { expiresInMs: 1 },
  );
  await eventually('they have expired', async () => (await peek(a, 'work')).every(({ state }) => state === 'expired'));
}

describe.each([
  ['removed', {}],
  ['moved to the dead letters', DEAD],
] as const)('a message that is to be %s', (_, config) => {
  test.each([
    ['is claimed', false],
    ['is claimed and given back', true],
  ] as const)(
    'stays when it %s in that moment, through a replica whose clock is late (C90)',
    async (_, isGivenBack) => {
      await using pair = await quietPair();
      const lease = await pair.b.createLease({ ttlMs: 60_000 });
      await configure(pair.a, 'work', config);
      await pushExpired(pair, 1);
      delayClock(pair.b);
      beforeWrite(pair.a, async () => {
        const held = await claimOne(pair.b, 'work', lease);
        await settleAll(pair.b, 'work', isGivenBack ? 'nack' : { op: 'extend', claimMs: 60_000 }, lease, [held]);
      });
      await sweep(pair.a);
      expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 1, claimed: isGivenBack ? 0 : 1 });
      expect(await pair.a.metric('postern_queue_messages_total', { op: 'message_expire' })).toBe(0);
      await pair.b.expect(204, 'DELETE', '/v1/leases/self', { leaseToken: lease.leaseToken });
      await eventually('it is gone', async () => {
        await sweep(pair.a);
        return (await queueOf(pair.a, 'work')).depth === 0;
      });
      expect(await pair.a.metric('postern_queue_messages_total', { op: 'message_expire' })).toBe(1);
    },
  );

  test('is so once, when two sweep at the same time', async () => {
    await using pair = await quietPair();
    await configure(pair.a, 'work', config);
    await configure(pair.a, 'dead');
    await pushExpired(pair, 150);
    beforeWrite(pair.a, () => sweep(pair.b));
    await sweep(pair.a);
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0 });
    expect((await peek(pair.a, 'dead')).length).toBe(config === DEAD ? 150 : 0);
    const counts = await Promise.all(
      [pair.a, pair.b].map((replica) => replica.metric('postern_queue_messages_total', { op: 'message_expire' })),
    );
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(150);
  });
});

test('a segment in which nothing comes any more is listed once, and again when something in it has expired', async () => {
  await using pair = await quietPair();
  const half = Array.from({ length: SEGMENT_MESSAGES / 2 }, (_, i) => i);
  await pushBodies(pair.a, 'work', ['first'], { expiresInMs: HOUR / 4 });
  for (let i = 0; i < 5; i += 1) await pushBodies(pair.a, 'work', half);
  const listings = async (before?: Sealed): Promise<[Sealed, number]> => {
    const segments: string[] = [];
    const sealed = await sweep(pair.a, before, (path) => {
      if (/\/s-\d+$/.test(path)) segments.push(path);
    });
    return [sealed, segments.length];
  };
  const [first, all] = await listings();
  expect(all).toBe(3);
  const [second, again] = await listings(first);
  expect(again).toBe(1);
  expect(second).toEqual(first);
  // As half an hour later: the sealed segment with the message that expires is looked at, and the other one is not.
  const { zooKeeperClock } = pair.a.gateway.context;
  const at = zooKeeperClock.now();
  zooKeeperClock.now = () => at + HOUR / 2;
  expect((await listings(second))[1]).toBe(2);
  expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 2_500 });
});
