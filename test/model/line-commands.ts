/**
 * What clients and replicas do, as commands for fast-check. Each does it for real, says what the answer must have been, and
 * compares the line that both replicas show with the model's.
 */
import fc from 'fast-check';
import type { Held, Reply } from '../support/client.js';
import type { LineModel, Mode } from './line-model.js';
import { inWords, type At, type Kind, type LineScene } from './line-scene.js';

type Model = LineModel;

abstract class Command implements fc.AsyncCommand<Model, LineScene> {
  constructor(protected readonly scene: () => LineScene) {}

  check(_model: Readonly<Model>): boolean {
    return this.scene().current;
  }

  async run(model: Model, scene: LineScene): Promise<void> {
    scene.commands += 1;
    await this.act(model, scene);
    await scene.agree();
  }

  protected abstract act(model: Model, scene: LineScene): Promise<void>;
  abstract toString(): string;
}

function expectReply(reply: Reply, status: number, members: object = {}): void {
  const body = (reply.body ?? {}) as Record<string, unknown>;
  const wrong = Object.entries(members).some(([name, value]) => body[name] !== value);
  if (reply.status !== status || wrong)
    throw new Error(`expected ${status} ${JSON.stringify(members)}, was answered ${inWords(reply)}`);
}

interface AcquireArguments {
  at: At;
  client: number;
  requestId: string;
  mode: Mode;
  waits: boolean;
  keepPlace: boolean;
}

/** New, repeated at the same replica or at the other one, or in another mode: all the same to the client. */
class Acquire extends Command {
  readonly #arguments: AcquireArguments;

  constructor(scene: () => LineScene, given: AcquireArguments) {
    super(scene);
    this.#arguments = given;
  }

  protected async act(model: Model, scene: LineScene): Promise<void> {
    const { at, client, requestId, mode, waits, keepPlace } = this.#arguments;
    const mine = model.find(client, requestId);
    if (mine !== undefined && mine.mode !== mode) {
      const body = scene.body(requestId, mode, { waitMs: waits ? 5_000 : 0, keepPlace });
      expectReply(await scene.send(at, 'acquire', client, body), 409, { code: 'conflict' });
      return;
    }
    const holds = mine?.hold;
    const free = mine === undefined ? model.isFree(mode) : model.admits(mine);
    const place = mine ?? { client, requestId, mode };
    if (waits && !free) {
      if (mine === undefined) model.join(place);
      scene.wait(at, place, keepPlace);
      return;
    }
    const head = model.places[0];
    const reply = await scene.send(
      at,
      'acquire',
      client,
      scene.body(requestId, mode, { waitMs: waits ? 5_000 : 0, keepPlace }),
    );
    if (holds !== undefined) return expectReply(reply, 200, { alreadyHeld: true, ...holds });
    if (free) {
      expectReply(reply, 200, { alreadyHeld: false });
      if (mine === undefined) model.join(place);
      return model.granted(place, reply.body as Held);
    }
    if (keepPlace) {
      expectReply(reply, 202);
      if (mine === undefined) model.join(place);
      scene.disown(place);
      return scene.kept();
    }
    expectReply(reply, 409, { code: 'lock-held' });
    const told = (reply.body as { holder?: { leaseId: string } }).holder?.leaseId;
    if (mine === undefined && told !== scene.lease(head?.client as number).leaseId)
      throw new Error(`the head of the line is not who is named as the holder: ${inWords(reply)}`);
    if (mine !== undefined) scene.leave(mine);
  }

  toString(): string {
    const { at, client, requestId, mode, waits, keepPlace } = this.#arguments;
    return `acquire(${client}/${requestId}, ${mode}, at ${at}${waits ? ', waits' : ''}${keepPlace ? ', keepPlace' : ''})`;
  }
}

class ReleaseByRequestId extends Command {
  constructor(
    scene: () => LineScene,
    readonly at: At,
    readonly client: number,
    readonly requestId: string,
  ) {
    super(scene);
  }

  protected async act(model: Model, scene: LineScene): Promise<void> {
    const mine = model.find(this.client, this.requestId);
    const reply = await scene.send(this.at, 'release', this.client, { requestId: this.requestId });
    if (mine === undefined) return expectReply(reply, 409, { code: 'not-holder' });
    expectReply(reply, 204);
    scene.leave(mine);
  }

  toString(): string {
    return `releaseByRequestId(${this.client}/${this.requestId}, at ${this.at})`;
  }
}

/** Of one of the holds there are; once in a while with somebody else's lease. */
class ReleaseByHoldId extends Command {
  constructor(
    scene: () => LineScene,
    readonly at: At,
    readonly choice: number,
    readonly byAnother: boolean,
  ) {
    super(scene);
  }

  override check(model: Readonly<Model>): boolean {
    return super.check(model) && model.holders().length > 0;
  }

  protected async act(model: Model, scene: LineScene): Promise<void> {
    const holders = model.holders();
    const place = holders[this.choice % holders.length] as (typeof holders)[0];
    const client = this.byAnother ? (place.client + 1) % 3 : place.client;
    const reply = await scene.send(this.at, 'release', client, { holdId: place.hold?.holdId });
    if (this.byAnother) return expectReply(reply, 409, { code: 'not-holder' });
    expectReply(reply, 204);
    scene.leave(place);
  }

  toString(): string {
    return `releaseByHoldId(${this.choice}, at ${this.at}${this.byAnother ? ', by another' : ''})`;
  }
}

/** A release that arrives late. */
class ReleaseAgain extends Command {
  constructor(
    scene: () => LineScene,
    readonly at: At,
    readonly choice: number,
  ) {
    super(scene);
  }

  override check(model: Readonly<Model>): boolean {
    return super.check(model) && this.scene().past.length > 0;
  }

  protected async act(_model: Model, scene: LineScene): Promise<void> {
    const { client, holdId } = scene.past[this.choice % scene.past.length] as (typeof scene.past)[0];
    expectReply(await scene.send(this.at, 'release', client, { holdId }), 409, { code: 'not-holder' });
  }

  toString(): string {
    return `releaseAgain(${this.choice}, at ${this.at})`;
  }
}

class HangUp extends Command {
  constructor(
    scene: () => LineScene,
    readonly choice: number,
  ) {
    super(scene);
  }

  override check(model: Readonly<Model>): boolean {
    return super.check(model) && this.scene().openRequests > 0;
  }

  protected act(_model: Model, scene: LineScene): Promise<void> {
    return scene.hangUp(this.choice);
  }

  toString(): string {
    return `hangUp(${this.choice})`;
  }
}

class Heartbeat extends Command {
  constructor(
    scene: () => LineScene,
    readonly at: At,
    readonly client: number,
  ) {
    super(scene);
  }

  protected async act(_model: Model, scene: LineScene): Promise<void> {
    expectReply(await scene.site.replicas[this.at].heartbeat(scene.lease(this.client)), 200);
  }

  toString(): string {
    return `heartbeat(${this.client}, at ${this.at})`;
  }
}

/** By its client, or as if it had fallen silent; the client comes back with a new one. */
class EndLease extends Command {
  constructor(
    scene: () => LineScene,
    readonly at: At,
    readonly client: number,
    readonly bySilence: boolean,
  ) {
    super(scene);
  }

  protected async act(_model: Model, scene: LineScene): Promise<void> {
    const lease = scene.lease(this.client);
    await scene.endLease(this.client, async () => {
      if (this.bySilence) await scene.site.expire(lease.leaseId);
      else expectReply(await scene.site.replicas[this.at].endLease(lease), 204);
    });
    expectReply(await scene.site.replicas[this.at === 0 ? 1 : 0].heartbeat(lease), 410);
  }

  toString(): string {
    return `${this.bySilence ? 'expire' : 'endLease'}(${this.client}, at ${this.at})`;
  }
}

class Crash extends Command {
  constructor(
    scene: () => LineScene,
    readonly at: At,
  ) {
    super(scene);
  }

  protected act(_model: Model, scene: LineScene): Promise<void> {
    return scene.crash(this.at);
  }

  toString(): string {
    return `crash(${this.at})`;
  }
}

export interface CommandOptions {
  /** Replicas are killed as well. */
  crashes: boolean;
  /** As a failure printed it. */
  replayPath: string | undefined;
}

/** @param scene the one of the sequence that runs now */
export function lineCommands(
  kind: Kind,
  scene: () => LineScene,
  { crashes, replayPath }: CommandOptions,
): fc.Arbitrary<Iterable<fc.AsyncCommand<Model, LineScene>>> {
  const at = fc.constantFrom<At>(0, 1);
  const client = fc.constantFrom(0, 1, 2);
  const requestId = fc.constantFrom('r', 's');
  const mode = kind === 'locks' ? fc.constant<Mode>('exclusive') : fc.constantFrom<Mode>('read', 'write', 'read');
  const acquire = fc
    .record({ at, client, requestId, mode, waits: fc.boolean(), keepPlace: fc.boolean() })
    .map((given) => new Acquire(scene, given));
  const waiting = fc
    .record({ at, client, requestId, mode, waits: fc.constant(true), keepPlace: fc.boolean() })
    .map((given) => new Acquire(scene, given));
  return fc.commands(
    [
      // Thrice: a line in which nobody stands shows little.
      acquire,
      waiting,
      waiting,
      fc.tuple(at, client, requestId).map((given) => new ReleaseByRequestId(scene, ...given)),
      fc
        .tuple(at, fc.nat(5), fc.constantFrom(false, false, false, true))
        .map((given) => new ReleaseByHoldId(scene, ...given)),
      fc.tuple(at, fc.nat(5), fc.constant(false)).map((given) => new ReleaseByHoldId(scene, ...given)),
      fc.tuple(at, fc.nat(5)).map((given) => new ReleaseAgain(scene, ...given)),
      fc.nat(5).map((choice) => new HangUp(scene, choice)),
      fc.tuple(at, client).map((given) => new Heartbeat(scene, ...given)),
      fc.tuple(at, client, fc.boolean()).map((given) => new EndLease(scene, ...given)),
      ...(crashes ? [at.map((where) => new Crash(scene, where))] : []),
    ],
    { maxCommands: 30, size: 'max', ...(replayPath !== undefined && { replayPath }) },
  );
}
