/** What may happen in a sequence, and how often, for each kind of line. */
import fc from 'fast-check';
import { Acquire, type AcquireArguments } from './acquire.js';
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
import { Campaign, Speak, VALUES } from './election-commands.js';
import type { ElectionScene } from './election-scene.js';
import type { LineModel, Wish } from './line-model.js';
import type { LineScene } from './line-scene.js';
import { AcquirePermits, SetLimit } from './semaphore-commands.js';
import type { SemaphoreScene } from './semaphore-scene.js';
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
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command> =>
    requests(wish, waits, fc.boolean()).map((given) => new Acquire(scene, given));
  return sequences([...liningUp(acquires), breaking(scene), ...clients(scene)], scene, options);
}

export function semaphoreSequences(scene: () => SemaphoreScene, options: CommandOptions): Sequences<SemaphoreScene> {
  const wish = fc.constantFrom(1, 2, 1, 3, 1).map((count): Wish => ({ mode: 'shared', count }));
  const limit = fc.constantFrom(1, 2, 3, 4);
  // Who names another number than what is agreed on is refused, or goes on with the place that it has.
  const named = fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: limit });
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command<SemaphoreScene>> =>
    fc.tuple(requests(wish, waits, fc.boolean()), named).map((given) => new AcquirePermits(scene, ...given));
  const setting = fc.tuple(at, limit).map((given) => new SetLimit(scene, ...given));
  return sequences([...liningUp(acquires), setting, breaking(scene), ...clients(scene)], scene, options);
}

export function electionSequences(scene: () => ElectionScene, options: CommandOptions): Sequences<ElectionScene> {
  const wish = fc.constant<Wish>({ mode: 'exclusive' });
  const keepPlace = fc.constantFrom(true, true, true, false);
  const value = fc.constantFrom(undefined, ...VALUES);
  const acquires = (waits: fc.Arbitrary<boolean>): fc.Arbitrary<Command<ElectionScene>> =>
    fc.tuple(requests(wish, waits, keepPlace), value).map((given) => new Campaign(scene, ...given));
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
  return sequences([...liningUp(acquires), speaks, speaks, ...clients(scene)], scene, options);
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

function breaking(scene: () => LineScene): fc.Arbitrary<Command> {
  return fc.tuple(at, fc.oneof(choice, choice, fc.constant('all' as const))).map((given) => new Break(scene, ...given));
}

function clients(scene: () => LineScene): fc.Arbitrary<Command>[] {
  return [
    fc.tuple(at, client, requestId).map((given) => new ReleaseByRequestId(scene, ...given)),
    fc
      .tuple(at, choice, fc.constantFrom(false, false, false, true))
      .map((given) => new ReleaseByHoldId(scene, ...given)),
    fc.tuple(at, choice, fc.constant(false)).map((given) => new ReleaseByHoldId(scene, ...given)),
    fc.tuple(at, choice).map((given) => new ReleaseAgain(scene, ...given)),
    fc.tuple(at, choice).map((given) => new CheckToken(scene, ...given)),
    choice.map((which) => new HangUp(scene, which)),
    fc.tuple(at, client).map((given) => new Heartbeat(scene, ...given)),
    fc.tuple(at, client, fc.boolean()).map((given) => new EndLease(scene, ...given)),
  ];
}

function sequences<S extends LineScene>(
  commands: fc.Arbitrary<Command<S>>[],
  scene: () => S,
  { crashes, replayPath }: CommandOptions,
): Sequences<S> {
  return fc.commands([...commands, ...(crashes ? [at.map((where) => new Crash(scene, where))] : [])], {
    maxCommands: 30,
    size: 'max',
    ...(replayPath !== undefined && { replayPath }),
  });
}
