/** Beginning and ending rounds in the moments in which somebody else acts. */
import { expect, test } from 'vitest';
import { isInRound, READY, type Round } from '../../../src/recipes/double-barrier/round.js';
import { Rounds } from '../../../src/recipes/double-barrier/rounds.js';
import type { ControlSession } from '../../../src/zookeeper/control-session.js';
import { Gate, intercepted } from '../../support/gate.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';

const SIZE = 2;

test('a member that dies between the look and the beginning is in no round, and nobody enters without it (C30)', async () => {
  await using replica = await startReplica();
  const { control, directory, rounds, gate, member } = await scene(replica);
  await member('a');
  const b = await member('b');
  gate.shut();
  const looking = rounds.look(directory, SIZE);
  await gate.reached;
  await control.delete(b.path);
  gate.open();
  expect(await looking).toBeUndefined();
  expect(await control.exists(`${directory}/${READY}`)).toBeUndefined();
  await member('c');
  const round = (await rounds.look(directory, SIZE)) as Round;
  expect([...(round.members?.keys() ?? [])]).toEqual(['a', 'c']);
});

test('a member that has left and entered again between the look and the beginning is in the round as what it is now (C10)', async () => {
  await using replica = await startReplica();
  const { control, directory, rounds, gate, member } = await scene(replica);
  const a = await member('a');
  await member('b');
  gate.shut();
  const looking = rounds.look(directory, SIZE);
  await gate.reached;
  await control.delete(a.path);
  const again = await member('a');
  gate.open();
  const round = (await looking) as Round;
  expect(isInRound(round, 'a', again.stat.czxid)).toBe(true);
  await control.delete(again.path);
  const later = await member('a');
  expect(isInRound(round, 'a', later.stat.czxid)).toBe(false);
});

test('who ends a round late does not end the next one, which has the same path and version (C10, C30)', async () => {
  await using replica = await startReplica();
  const { control, directory, rounds, gate, member } = await scene(replica);
  const first = [await member('a'), await member('b')];
  const round = (await rounds.look(directory, SIZE)) as Round;
  for (const { path } of first) await control.delete(path);
  gate.shut();
  const ending = rounds.isOver(directory, round);
  await gate.reached;
  const others = new Rounds(control);
  expect(await others.isOver(directory, round)).toBe(true);
  await member('a');
  await member('b');
  const next = (await others.look(directory, SIZE)) as Round;
  gate.open();
  expect(await ending).toBe(true);
  expect((await control.exists(`${directory}/${READY}`))?.czxid).toBe(next.czxid);
});

test('two who find the round complete at once begin it once', async () => {
  await using replica = await startReplica();
  const { directory, rounds, control, member } = await scene(replica);
  await member('a');
  await member('b');
  const [one, two] = await Promise.all([rounds.look(directory, SIZE), new Rounds(control).look(directory, SIZE)]);
  expect(one?.czxid).toBe(two?.czxid);
  expect(one?.czxid).toBeGreaterThan(0);
});

interface Scene {
  control: ControlSession;
  directory: string;
  /** Whose transactions pass the gate. */
  rounds: Rounds;
  gate: Gate;
  member: (name: string) => ReturnType<ControlSession['create']>;
}

async function scene({ gateway }: Replica): Promise<Scene> {
  const { control, layout } = gateway.context;
  const directory = layout.doubleBarrier('default', 'stage');
  await control.ensurePath(directory);
  const gate = new Gate();
  const gated = intercepted(control, {
    multi: async (items, deadline) => {
      await gate.pass();
      return control.multi(items, deadline);
    },
  });
  return {
    control,
    directory,
    rounds: new Rounds(gated),
    gate,
    member: (name) => control.create(`${directory}/${name}`, undefined, { mode: 'ephemeral' }),
  };
}
