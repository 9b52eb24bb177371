/** What is said in an election only: a candidate's value, and what a leader says. */
import type { Reply } from '../../../support/http/client.js';
import { Acquire, type AcquireArguments } from '../../line/model/acquire.js';
import { Command, expectReply } from '../../line/model/command.js';
import type { Candidate } from './model.js';
import type { ElectionScene } from './scene.js';
import type { Place } from '../../line/model/model.js';
import type { At } from '../../line/model/site.js';

export const VALUES = ['a', 'b', 7, { url: 'http://c' }] as const;

export class Campaign extends Acquire<ElectionScene> {
  /** Those who stand no more where they did, and for whom. */
  #makingWay: Candidate[] = [];
  #preferred: Candidate | undefined;

  constructor(
    scene: () => ElectionScene,
    given: AcquireArguments,
    readonly value: unknown,
    readonly preference = 0,
  ) {
    super(scene, given);
  }

  override async act(scene: ElectionScene): Promise<void> {
    this.#makingWay = [];
    await super.act(scene);
    if (this.#makingWay.length > 0) await scene.standBehind(this.#preferred as Candidate, this.#makingWay);
  }

  /** The first in line leads, whether it has been told or not. */
  protected override isShownAsHolder(): boolean {
    return true;
  }

  protected override body(scene: ElectionScene): object {
    const preference = this.#preferenceIn(scene);
    return {
      ...super.body(scene),
      ...(this.value !== undefined && { value: this.value }),
      ...(preference > 0 && { preference }),
    };
  }

  /** Who waits at the other replica learns by a heartbeat that it was passed: nothing is to depend on when. */
  #preferenceIn(scene: ElectionScene): number {
    const { at } = this.given;
    const makingWay = scene.makingWay(this.preference);
    return makingWay.every((place) => (scene.open.siteOf(place) ?? at) === at) ? this.preference : 0;
  }

  protected override lineUp(scene: ElectionScene, mine: Candidate | undefined): Candidate {
    const { model } = scene;
    if (mine !== undefined) {
      model.campaignAgain(mine, this.value);
      return mine;
    }
    const { client, requestId, wish } = this.given;
    const preference = this.#preferenceIn(scene);
    const shown = { value: this.value ?? null, acknowledged: false, preference, passed: 0 };
    const candidate = { client, requestId, ...wish, ...shown };
    this.#makingWay = scene.makingWay(preference);
    this.#preferred = candidate;
    for (const place of this.#makingWay) model.remove(place);
    model.join(candidate);
    return candidate;
  }

  protected override expectKept(scene: ElectionScene, place: Place, reply: Reply): void {
    super.expectKept(scene, place, reply);
    expectReply(reply, 202, { position: scene.model.places.indexOf(place as Candidate) });
    scene.model.isKnownAs(place as Candidate, (reply.body as { candidateId: string }).candidateId);
  }

  protected override more(): string[] {
    const value = this.value === undefined ? [] : [JSON.stringify(this.value)];
    return this.preference === 0 ? value : [...value, 'preferred'];
  }
}

interface SpeakArguments {
  at: At;
  verb: 'proclaim' | 'acknowledge';
  value: unknown;
  /**
   * The leader; another lease with the leader's candidateId; or whoever, by client and requestId, or by one of the
   * candidateIds there were.
   */
  who: 'leader' | 'another' | 'anybody';
  client: number;
  requestId: string;
  choice: number;
}

/** Proclaiming another value, or acknowledging that one has taken over, as somebody who leads or does not. */
export class Speak extends Command<ElectionScene> {
  constructor(
    scene: () => ElectionScene,
    readonly given: SpeakArguments,
  ) {
    super(scene);
  }

  override check(): boolean {
    return super.check() && (this.given.who === 'anybody' || this.scene().model.leader !== undefined);
  }

  async act(scene: ElectionScene): Promise<void> {
    const { at, verb, value } = this.given;
    const { leader } = scene.model;
    const { client, which } = this.#speaker(scene);
    const leads =
      leader?.client === client &&
      ('candidateId' in which ? leader.candidateId === which.candidateId : leader.requestId === which.requestId);
    const reply = await scene.speak(at, client, verb, { ...which, ...(verb === 'proclaim' && { value }) });
    if (!leads) return expectReply(reply, 409, { code: 'not-holder' });
    const { candidateId, fencingToken } = leader;
    expectReply(reply, 200, { candidateId, fencingToken });
    if (verb === 'proclaim') leader.value = value;
    else leader.acknowledged = true;
    // Its client knows now that it leads.
    if (leader.hold === undefined) scene.model.granted(leader, scene.holdIn(reply));
  }

  #speaker(scene: ElectionScene): { client: number; which: { candidateId: string } | { requestId: string } } {
    const { who, client, requestId, choice } = this.given;
    const { leader } = scene.model;
    if (who === 'anybody') {
      const known = [...scene.releasable().map(({ holdId }) => holdId), ...scene.past.map(({ holdId }) => holdId)];
      const candidateId = known[choice];
      return { client, which: candidateId === undefined ? { requestId } : { candidateId } };
    }
    const led = leader as Candidate;
    if (who === 'another') return { client: (led.client + 1) % 3, which: { candidateId: led.candidateId as string } };
    return {
      client: led.client,
      which: choice % 2 === 0 ? { requestId: led.requestId } : { candidateId: led.candidateId as string },
    };
  }

  toString(): string {
    const { at, verb, value, who, client, requestId, choice } = this.given;
    const what = verb === 'proclaim' ? `proclaim ${JSON.stringify(value)}` : verb;
    return `speak(${what}, ${who}${who === 'anybody' ? ` ${client}/${requestId}` : ''} ${choice}, at ${at})`;
  }
}

/** Somebody with the right to makes one of those who stand the leader. */
export class Transfer extends Command<ElectionScene> {
  constructor(
    scene: () => ElectionScene,
    readonly at: At,
    readonly choice: number,
  ) {
    super(scene);
  }

  override check(): boolean {
    const { model } = this.scene();
    // Whoever is preferred would pass others once more when it stands again.
    return super.check() && model.leader !== undefined && model.places.every(({ preference }) => preference === 0);
  }

  async act(scene: ElectionScene): Promise<void> {
    const { places } = scene.model;
    const position = this.choice % places.length;
    const successor = places[position] as Candidate;
    const { candidateId } = successor;
    const reply = await scene.call(this.at, 'transfer', undefined, { candidateId });
    expectReply(reply, 200, { candidateId, leads: true, overtaken: Math.max(0, position - 1) });
    const [leader, ...overtaken] = places.slice(0, position);
    if (leader !== undefined) await scene.makeWay(leader, overtaken, successor);
  }

  toString(): string {
    return `transfer(${this.choice}, at ${this.at})`;
  }
}
