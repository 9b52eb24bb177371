/** Pushes and pops that wait for their place among other requests' writes. */
import { expect, test } from 'vitest';
import { bodiesOf, configure, pop, pushBodies, queueOf } from '../client.js';
import type { Requester } from '../../../../src/time.js';
import { eventually } from '../../../support/eventually.js';
import { beforeMulti, soon } from '../../../support/scene.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';

/** No more transactions of requests go out until what it returns is called. */
async function holdUp(replica: Replica): Promise<() => void> {
  const { groupCommit } = replica.gateway.context.control;
  let goOn = (): void => undefined;
  const held = new Promise<void>((resolve) => (goOn = resolve));
  for (const version of [-1, 0]) {
    beforeMulti(
      replica,
      () => held,
      ([first]) => first?.type === 'check' && first.path === '/' && first.version === version,
    );
    groupCommit
      .until(soon())
      .multi([{ type: 'check', path: '/', version }])
      .catch(() => undefined);
    await new Promise(setImmediate);
  }
  return goOn;
}

/** A request whose client hangs up while its transaction waits. */
async function givenUp(replica: Replica, path: string, body: unknown): Promise<void> {
  const { groupCommit } = replica.gateway.context.control;
  const requesters: (Requester | undefined)[] = [];
  const until = groupCommit.until.bind(groupCommit);
  groupCommit.until = (deadline, requester) => {
    requesters.push(requester);
    return until(deadline, requester);
  };
  const client = new AbortController();
  const left = replica.call('POST', path, { body, signal: client.signal }).catch(() => 'left');
  await eventually('its transaction waits', () => requesters.length > 0);
  client.abort();
  expect(await left).toBe('left');
  await eventually('its replica knows', () => requesters[0]?.gone === true);
}

test('nothing is popped for a client that hangs up while its pop waits for other transactions', async () => {
  await using a = await startReplica();
  await configure(a, 'work');
  await pushBodies(a, 'work', [1, 2]);
  expect(bodiesOf(await pop(a, 'work'))).toEqual([1]);
  const goOn = await holdUp(a);
  await givenUp(a, '/v1/queues/work/pop', {});
  goOn();
  expect(bodiesOf(await pop(a, 'work'))).toEqual([2]);
});

test('nothing is pushed for a client that hangs up while its push waits for other transactions', async () => {
  await using a = await startReplica();
  await configure(a, 'work');
  await pushBodies(a, 'work', [1]);
  const goOn = await holdUp(a);
  await givenUp(a, '/v1/queues/work/messages', { messages: [{ body: 2 }] });
  const pushing = pushBodies(a, 'work', [3]);
  goOn();
  await pushing;
  expect(await queueOf(a, 'work')).toMatchObject({ depth: 2 });
});
