/** What may happen in a sequence, and how often, for each kind of line. */
import fc from 'fast-check';
import { Acquire, AcquireAgain, type AcquireArguments } from './acquire.js';
import {
  Break,
  CheckToken,
  Crash,
  EndLease,
  HangUp,
  Heartbeat,
  ReleaseAgain,
  ReleaseByHoldId,
  ReleaseByRequestId,
} from './client-commands.js';
import type { Command } from './command.js';
import { Campaign, Speak, Transfer, VALUES } from '../../election/model/commands.js';
import type { ElectionScene } from '../../election/model/scene.js';
import type { LineModel, Wish } from './model.js';
import type { LineScene } from './scene.js';
import { AcquireRanked, ComeAndGo } from '../../lock/model/commands.js';
import type { PriorityScene } from '../../lock/model/scene.js';
import { AcquirePermits, SetLimit } from '../../semaphore/model/commands.js';
import type { SemaphoreScene } from '../../semaphore/model/scene.js';
import type { At } from './site.js';

export interface CommandOptions {
  /** Replicas are killed as well. */
  crashes: boolean;
  /** As a failure printed it. */
  replayPath: string | undefined;
}

/** A sequence of commands. */
export type Sequences<S extends LineScene> = fc.Arbitrary<Iterable<fc.AsyncCommand<LineModel, S>>>;

const at = fc.constantFrom<At>(0, 1);
const client = fc.constantFrom(0, 1, 2);
const requestId = fc.constantFrom('r', 's');
const choice = fc.nat(5);

export function lockSequences(scene: () => LineScene, options: CommandOptions): Sequences<LineScene> {
  return lineSequences(scene, fc.constant<Wish>({ mode: 'exclusive' }), options);
}

export function readWriteSequences(scene: () => LineScene, options: CommandOptions): Sequences<LineScene> {
  return lineSequences(scene, fc.constantFrom<Wish>({ mode: 'read' }, { mode: 'write' }, { mode: 'read' }), options);
}

function lineSequences(
  scene: () => LineScene,
  wish: fc.Arbitrary<Wish>,
  options: CommandOptions,
): Sequences<LineScene> {
  const keepPlace = fc.boolean();
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command> =>
    requests(wish, waits, keepPlace).map((given) => new Acquire(scene, given));
  const again = repetitions(keepPlace).map((given) => new AcquireAgain(scene, given, (all) => new Acquire(scene, all)));
  return sequences([...liningUp(acquires), again, breaking(scene), ...clients(scene)], scene, options);
}

export function semaphoreSequences(scene: () => SemaphoreScene, options: CommandOptions): Sequences<SemaphoreScene> {
  const wish = fc.constantFrom(1, 2, 1, 3, 1).map((count): Wish => ({ mode: 'shared', count }));
  const limit = fc.constantFrom(1, 2, 3, 4, 5, 6);
  const keepPlace = fc.boolean();
  // Who names another number than what is agreed on is refused, or goes on with the place that it has.
  const named = fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: limit });
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command<SemaphoreScene>> =>
    fc.tuple(requests(wish, waits, keepPlace), named).map((given) => new AcquirePermits(scene, ...given));
  const again = fc
    .tuple(repetitions(keepPlace), named)
    .map(([given, limit]) => new AcquireAgain(scene, given, (all) => new AcquirePermits(scene, all, limit)));
  const setting = fc.tuple(at, limit).map((given) => new SetLimit(scene, ...given));
  // Places that nobody waits for, and limits that go up and down: only then others hold than the first ones.
  const kept = acquires(fc.constant(false));
  const lining = [...liningUp(acquires), kept, kept, kept, again, again];
  const commands = [...lining, setting, setting, setting, breaking(scene), ...clients(scene)];
  return sequences(commands, scene, { ...options, maxCommands: 40 });
}

export function prioritySequences(scene: () => PriorityScene, options: CommandOptions): Sequences<PriorityScene> {
  const priority = fc.constantFrom(0, 1, 2, 5, 10);
  const ranked = priority.map((priority): Wish => ({ mode: 'exclusive', priority }));
  const wish = fc.oneof(
    { weight: 9, arbitrary: ranked },
    { weight: 1, arbitrary: fc.constant<Wish>({ mode: 'exclusive' }) },
  );
  const keepPlace = fc.boolean();
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command<PriorityScene>> =>
    requests(wish, waits, keepPlace).map((given) => new AcquireRanked(scene, given));
  const again = repetitions(keepPlace).map(
    (given) => new AcquireAgain(scene, given, (all) => new AcquireRanked(scene, all)),
  );
  const passing = fc.constantFrom(1, 1, 3, 10).map((hundreds) => new ComeAndGo(scene, hundreds));
  const lining = [...liningUp(acquires), ...liningUp(acquires), again];
  return sequences([...lining, passing, breaking(scene), ...clients(scene)], scene, { ...options, maxCommands: 40 });
}

export function electionSequences(scene: () => ElectionScene, options: CommandOptions): Sequences<ElectionScene> {
  const wish = fc.constant<Wish>({ mode: 'exclusive' });
  const keepPlace = fc.constantFrom(true, true, true, false);
  const value = fc.constantFrom(undefined, ...VALUES);
  const preference = fc.constantFrom(0, 0, 0, 1);
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command<ElectionScene>> =>
    fc.tuple(requests(wish, waits, keepPlace), value, preference).map((given) => new Campaign(scene, ...given));
  const again = fc
    .tuple(repetitions(keepPlace), value)
    .map(([given, value]) => new AcquireAgain(scene, given, (all) => new Campaign(scene, all, value)));
  const speaks = fc
    .record({
      at,
      verb: fc.constantFrom('proclaim' as const, 'acknowledge' as const),
      value: fc.constantFrom(null, ...VALUES),
      who: fc.constantFrom('leader' as const, 'leader' as const, 'another' as const, 'anybody' as const),
      client,
      requestId,
      choice,
    })
    .map((given) => new Speak(scene, given));
  const transfers = fc.tuple(at, choice).map((given) => new Transfer(scene, ...given));
  return sequences([...liningUp(acquires), again, speaks, speaks, transfers, ...clients(scene)], scene, options);
}

/** Thrice: a line in which nobody stands shows little. */
function liningUp<C>(acquires: (waits: fc.Arbitrary<boolean>) => fc.Arbitrary<C>): fc.Arbitrary<C>[] {
  return [acquires(fc.boolean()), acquires(fc.constant(true)), acquires(fc.constant(true))];
}

function requests(
  wish: fc.Arbitrary<Wish>,
  waits: fc.Arbitrary<boolean>,
  keepPlace: fc.Arbitrary<boolean>,
): fc.Arbitrary<AcquireArguments> {
  return fc.record({ at, client, requestId, wish, waits, keepPlace });
}

function repetitions(
  keepPlace: fc.Arbitrary<boolean>,
): fc.Arbitrary<Pick<AcquireArguments, 'at' | 'waits' | 'keepPlace'> & { choice: number }> {
  return fc.record({ at, choice, waits: fc.boolean(), keepPlace });
}

function breaking(scene: () => LineScene): fc.Arbitrary<Command> {
  return fc.tuple(at, fc.oneof(choice, choice, fc.constant('all' as const))).map((given) => new Break(scene, ...given));
}

function clients(scene: () => LineScene): fc.Arbitrary<Command>[] {
  return [
    fc.tuple(at, client, requestId).map((given) => new ReleaseByRequestId(scene, ...given)),
    fc
      .tuple(at, choice, fc.constantFrom(false, false, false, true))
      .map((given) => new ReleaseByHoldId(scene, ...given)),
    fc.oneof(
      fc.tuple(at, choice).map((given): Command => new ReleaseAgain(scene, ...given)),
      fc.tuple(at, choice).map((given): Command => new CheckToken(scene, ...given)),
      fc.tuple(at, client).map((given): Command => new Heartbeat(scene, ...given)),
    ),
    choice.map((which) => new HangUp(scene, which)),
    fc.tuple(at, client, fc.boolean()).map((given) => new EndLease(scene, ...given)),
  ];
}

function sequences<S extends LineScene>(
  commands: fc.Arbitrary<Command<S>>[],
  scene: () => S,
  { crashes, replayPath, maxCommands = 30 }: CommandOptions & { maxCommands?: number },
): Sequences<S> {
  return fc.commands([...commands, ...(crashes ? [at.map((where) => new Crash(scene, where))] : [])], {
    maxCommands,
    size: 'max',
    ...(replayPath !== undefined && { replayPath }),
  });
}
