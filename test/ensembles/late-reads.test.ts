/** What a replica reads in a namespace that has moved, and of whose move it has not heard (ADR 41). */
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { Gate } from '../support/gate.js';
import type { Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { inNamespace, startOnce, startTwo, untilInForce } from './two.js';

const ORDERS = inNamespace('orders');
/** So that tokens rise where it moves back to `default`. */
const settings = { POSTERN_FENCING_FLOOR: String(2 ** 42) };

/** Holds back the first map that the replica writes to `west` from now on. */
function holdMapOfWest({ gateway }: Replica): Gate {
  const gate = new Gate();
  gate.shut();
  const { control, layout } = gateway.ensembles[1]!.foundation.context;
  const multi = control.multi.bind(control);
  control.multi = async (operations, deadline) => {
    if (operations.some(({ type, path }) => type === 'setData' && path === `${layout.root}/ensembles`))
      await gate.pass();
    return multi(operations, deadline);
  };
  return gate;
}

test.each([
  ['changed', '/v1/config/app', 1],
  ['made', '/v1/config/new', undefined],
])(
  'it does not answer from the old ensemble once a key was %s at the new one',
  { timeout: scaled(120_000) },
  async (_how, key, before) => {
    await using two = await startTwo();
    await using proxy = await startTcpProxy({ port: Number(two.east.connectString.split(':')[1]) });
    const path = two.file(1, { orders: 'west' });
    await startOnce(two, path);
    await using replica = await two.start(path, { settings });
    // It goes by the stored map, and asks for nothing of its own accord.
    const older = two.file(1, { orders: 'west' }, 'older.json');
    await using late = await two.start(older, { settings, zookeeper: proxy.connectString });
    await untilInForce(late, 1);
    await late.expect(201, 'PUT', '/v1/config/app', { body: 1, ...ORDERS });
    two.file(2, { orders: { ensemble: 'west', closed: true } });
    await untilInForce(late, 2);
    await eventually('all have heard', async () => {
      const text = (await replica.call('GET', '/metrics')).body as string;
      return text.includes('postern_ensemble_agreed_version{ensemble="west"} 2\n');
    });
    expect((await late.call('GET', key, ORDERS)).body).toEqual(before ?? expect.objectContaining({ status: 404 }));

    const gate = holdMapOfWest(replica);
    proxy.pause('fromZooKeeper');
    two.file(3, {});
    await gate.reached;
    await replica.expect(201, 'PUT', key, { body: 2, ...ORDERS });
    const held = proxy.heldBytes();
    const read = late.call('GET', key, ORDERS);
    await Promise.race([read, eventually('it asks `default`', () => proxy.heldBytes() > held)]);
    proxy.resume('fromZooKeeper');
    const { body } = await read;
    expect(['zookeeper-unavailable', 2]).toContain(body.code ?? body);
    gate.open();
    await untilInForce(late, 3);
    expect((await late.call('GET', key, ORDERS)).body).toBe(2);
  },
);
