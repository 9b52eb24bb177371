/** A namespace that nobody has used moves without being closed, but not to lower tokens nor under a write (ADR 41). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { MultiOperation } from '../../src/zookeeper/operations.js';
import { eventually } from '../support/eventually.js';
import { Gate } from '../support/gate.js';
import type { Replica } from '../support/start-gateway.js';
import { scaled, timing } from '../support/timing.js';
import { inNamespace, reasonsOf, startTwo, untilInForce, untilRefused, type Two } from './two.js';

const FRESH = inNamespace('fresh');

let two: Two;

beforeAll(async () => {
  two = await startTwo();
}, scaled(60_000));

afterAll(() => two[Symbol.asyncDispose](), scaled(60_000));

async function highestAt(replica: Replica, ensemble: string): Promise<number> {
  const text = (await replica.call('GET', '/metrics')).body as string;
  const line = new RegExp(`^postern_fencing_token_highest\\{ensemble="${ensemble}"\\} (\\d+)$`, 'm');
  return Number(line.exec(text)?.[1]);
}

async function namespacesAt(replica: Replica): Promise<string[]> {
  const { control, layout } = replica.gateway.ensembles[0]!.foundation.context;
  return [...(await control.getNames(layout.namespaces, performance.now() + timing.eventuallyMs)).sorted];
}

/** Holds back the write that puts the next map in force. */
function holdBackMapOf(replica: Replica): Gate {
  const { control } = replica.gateway.ensembles[0]!.foundation.context;
  const gate = new Gate();
  gate.shut();
  const write = control.multi.bind(control);
  const isOfMap = ({ type, path }: MultiOperation): boolean => type === 'setData' && path.endsWith('/ensembles');
  control.multi = async (items: readonly MultiOperation[], deadline) => {
    if (items.some(isOfMap)) await gate.pass();
    return write(items, deadline);
  };
  return gate;
}

test('it goes to an ensemble that counts lower, where no floor says that tokens are to rise', async () => {
  const [name, at] = ['low.json', two.west.connectString];
  const root = `${two.root}-low`;
  await using replica = await two.start(two.file(1, {}, name, at, 0), { root });
  await untilInForce(replica, 1);
  await eventually('`default` has counted further', async () => {
    await replica.expect([200, 201], 'PUT', '/v1/config/app', { body: 1 });
    return (await highestAt(replica, 'default')) > (await highestAt(replica, 'west')) + 20;
  });
  two.file(2, { fresh: 'west' }, name, at, 0);
  await untilInForce(replica, 2);
  expect(await namespacesAt(replica)).not.toContain('fresh');
  two.file(3, {}, name, at, 0);
  await untilInForce(replica, 3);
  expect(await reasonsOf(replica)).toEqual([]);
});

test('it does not go below the floor of where it leaves, which may have been made anew', async () => {
  const [name, at] = ['floors.json', two.west.connectString];
  const root = `${two.root}-floors`;
  const settings = { POSTERN_FENCING_FLOOR: String(2 ** 42) };
  await using replica = await two.start(two.file(1, {}, name, at, 2 ** 40), { root, settings });
  await untilInForce(replica, 1);
  two.file(2, { fresh: 'west' }, name, at, 2 ** 40);
  await untilRefused(
    replica,
    /"fresh" does not move to "west": fencing tokens there are lower .*; set fencingFloor of "west" .* to 4398046511104 at least/,
  );
  await replica.expect(201, 'PUT', '/v1/config/app', { body: 1, ...FRESH });
});

test('where it comes to above a floor it counts as used', async () => {
  const [name, at] = ['above.json', two.west.connectString];
  const root = `${two.root}-above`;
  const settings = { POSTERN_FENCING_FLOOR: String(2 ** 33) };
  await using replica = await two.start(two.file(1, {}, name, at, 2 ** 40), { root, settings });
  await untilInForce(replica, 1);
  two.file(2, { fresh: 'west' }, name, at, 2 ** 40);
  await untilInForce(replica, 2);
  two.file(3, {}, name, at, 2 ** 40);
  await untilRefused(replica, /"fresh" does not move to "default": it is in use and not closed/);
});

test('it stays where somebody begins to use it while the map is written', { timeout: scaled(60_000) }, async () => {
  const root = `${two.root}-late`;
  await using other = await two.start(two.file(1, {}, 'other.json'), { root });
  await using replica = await two.start(two.file(1, {}, 'late.json'), { root });
  for (const one of [other, replica]) await untilInForce(one, 1);
  const gate = holdBackMapOf(replica);
  two.file(2, { fresh: 'west' }, 'late.json');
  await gate.reached;
  const { leaseToken } = await other.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...FRESH });
  await other.expect(200, 'POST', '/v1/locks/l/acquire', { body: { requestId: 'a' }, leaseToken });
  gate.open();
  await untilRefused(replica, /"fresh" does not move to "west": it is in use and not closed/);
  expect((await replica.expect(200, 'GET', '/v1/locks/l', FRESH)).holders).toHaveLength(1);
  await other.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
});

test('a map that moves more of them than one transaction holds is refused', { timeout: scaled(90_000) }, async () => {
  const root = `${two.root}-many`;
  const map = (count: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`${'n'.repeat(195)}${i}`, 'west']));
  await using replica = await two.start(two.file(1, {}, 'many.json'), { root });
  await untilInForce(replica, 1);
  two.file(2, map(2_000), 'many.json');
  await untilRefused(replica, /It moves too many namespaces at once .*: name some of them in a later version/);
  two.file(2, map(1_000), 'many.json');
  await untilInForce(replica, 2);
});
