/** What clients of any line do beside lining up, and what befalls them. */
import { Command, expectReply } from './command.js';
import type { Place } from './model.js';
import type { LineScene } from './scene.js';
import { inWords } from './open-requests.js';
import type { At } from './site.js';

type Scene = () => LineScene;

export class ReleaseByRequestId extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly client: number,
    readonly requestId: string,
  ) {
    super(scene);
  }

  async act(scene: LineScene): Promise<void> {
    const mine = scene.model.find(this.client, this.requestId);
    const reply = await scene.release(this.at, this.client, { requestId: this.requestId });
    if (mine === undefined) return expectReply(reply, 409, { code: 'not-holder' });
    expectReply(reply, 204);
    scene.leave(mine);
  }

  toString(): string {
    return `releaseByRequestId(${this.client}/${this.requestId}, at ${this.at})`;
  }
}

/** Of one of the holds there are; once in a while with somebody else's lease. */
export class ReleaseByHoldId extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly choice: number,
    readonly byAnother: boolean,
  ) {
    super(scene);
  }

  override check(): boolean {
    return super.check() && this.scene().releasable().length > 0;
  }

  async act(scene: LineScene): Promise<void> {
    const { place, holdId } = chosen(scene.releasable(), this.choice);
    const client = this.byAnother ? (place.client + 1) % 3 : place.client;
    const reply = await scene.release(this.at, client, { holdId });
    if (this.byAnother) return expectReply(reply, 409, { code: 'not-holder' });
    expectReply(reply, 204);
    scene.leave(place);
  }

  toString(): string {
    return `releaseByHoldId(${this.choice}, at ${this.at}${this.byAnother ? ', by another' : ''})`;
  }
}

/** A release that arrives late. */
export class ReleaseAgain extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly choice: number,
  ) {
    super(scene);
  }

  override check(): boolean {
    return super.check() && this.scene().past.length > 0;
  }

  async act(scene: LineScene): Promise<void> {
    const { client, holdId } = chosen(scene.past, this.choice);
    expectReply(await scene.release(this.at, client, { holdId }), 409, { code: 'not-holder' });
  }

  toString(): string {
    return `releaseAgain(${this.choice}, at ${this.at})`;
  }
}

/** Of a token that is current, or was. */
export class CheckToken extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly choice: number,
  ) {
    super(scene);
  }

  async act(scene: LineScene): Promise<void> {
    const tokens = scene.tokens();
    const fencingToken = chosen([0, ...tokens, ...scene.past.map((hold) => hold.fencingToken)], this.choice);
    const reply = await scene.call(this.at, 'check', undefined, { fencingToken });
    expectReply(reply, 200, { current: tokens.includes(fencingToken), latestFencingToken: tokens.at(-1) ?? null });
  }

  toString(): string {
    return `check(${this.choice}, at ${this.at})`;
  }
}

/** Somebody with the right to takes one hold away, or all of them. */
export class Break extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly choice: number | 'all',
  ) {
    super(scene);
  }

  async act(scene: LineScene): Promise<void> {
    const holders = scene.model.holders();
    const one = this.choice === 'all' || holders.length === 0 ? undefined : chosen(holders, this.choice);
    const body = { graceMs: 0, ...(one?.hold && { holdId: one.hold.holdId }) };
    const reply = await scene.call(this.at, 'revoke', undefined, body);
    if (holders.length === 0) return expectReply(reply, 409, { code: 'not-holder' });
    expectReply(reply, 200);
    const broken = one === undefined ? holders : [one];
    const { holds } = reply.body as { holds: { holdId: string }[] };
    if (holds.map(({ holdId }) => holdId).join() !== broken.map(holdIdOf).join())
      throw new Error(`others were broken than should be: ${inWords(reply)}`);
    for (const place of broken) {
      scene.takenAway(place.client, `${holdIdOf(place)} broken`);
      scene.leave(place);
    }
  }

  toString(): string {
    return `break(${this.choice}, at ${this.at})`;
  }
}

export class HangUp extends Command {
  constructor(
    scene: Scene,
    readonly choice: number,
  ) {
    super(scene);
  }

  override check(): boolean {
    return super.check() && this.scene().open.size > 0;
  }

  act(scene: LineScene): Promise<void> {
    return scene.hangUp(this.choice);
  }

  toString(): string {
    return `hangUp(${this.choice})`;
  }
}

export class Heartbeat extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly client: number,
  ) {
    super(scene);
  }

  /** Its answer names the holds that were taken away, as long as the lease lives. */
  async act(scene: LineScene): Promise<void> {
    const reply = await scene.site.replicas[this.at].heartbeat(scene.lease(this.client));
    expectReply(reply, 200);
    const { lost } = reply.body as { lost: { holdId: string; reason: string }[] };
    const told = lost.map(({ holdId, reason }) => `${holdId} ${reason}`).sort();
    const broken = [...(scene.broken.get(this.client) ?? [])].sort();
    if (told.join() !== broken.join())
      throw new Error(`told of ${JSON.stringify(lost)}, of which ${JSON.stringify(broken)} should be lost`);
  }

  toString(): string {
    return `heartbeat(${this.client}, at ${this.at})`;
  }
}

/** By its client, or as if it had fallen silent; the client comes back with a new one. */
export class EndLease extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
    readonly client: number,
    readonly bySilence: boolean,
  ) {
    super(scene);
  }

  async act(scene: LineScene): Promise<void> {
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

export class Crash extends Command {
  constructor(
    scene: Scene,
    readonly at: At,
  ) {
    super(scene);
  }

  act(scene: LineScene): Promise<void> {
    return scene.crash(this.at);
  }

  toString(): string {
    return `crash(${this.at})`;
  }
}

function chosen<T>(list: readonly T[], choice: number): T {
  return list[choice % list.length] as T;
}

function holdIdOf({ hold }: Place): string {
  return hold?.holdId as string;
}
