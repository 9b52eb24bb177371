/**
 * Lining up, by whatever request: new, repeated at the same replica or at the other one, or for something else: all the
 * same to the client.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Reply } from '../../../support/http/client.js';
import { Command, expectReply } from './command.js';
import type { Place, Wish } from './model.js';
import type { LineScene } from './scene.js';
import { inWords } from './open-requests.js';
import type { At } from './site.js';

export interface AcquireArguments {
  at: At;
  client: number;
  requestId: string;
  wish: Wish;
  waits: boolean;
  keepPlace: boolean;
}

export interface Refusal {
  status: number;
  members: object;
}

export class Acquire<S extends LineScene = LineScene> extends Command<S> {
  constructor(
    scene: () => S,
    protected readonly given: AcquireArguments,
  ) {
    super(scene);
  }

  async act(scene: S): Promise<void> {
    const { model, words } = scene;
    const { at, client, requestId, waits, keepPlace } = this.given;
    const mine = model.find(client, requestId);
    const body = this.body(scene);
    const send = (): Promise<Reply> => scene.acquire(at, client, { ...body, waitMs: 0, keepPlace });
    const refusal = this.refusal(scene, mine);
    if (refusal !== undefined) return expectReply(await send(), refusal.status, refusal.members);
    if (mine?.hold !== undefined) {
      const { holdId, fencingToken } = mine.hold;
      return expectReply(await send(), 200, { [words.alreadyHeld]: true, [words.holdId]: holdId, fencingToken });
    }
    const free = this.isFree(scene, mine);
    if (waits && !free) return scene.wait(at, this.lineUp(scene, mine), keepPlace, body);
    const head = model.places[0];
    const reply = await send();
    if (free) {
      expectReply(reply, 200, { [words.held]: true, [words.alreadyHeld]: false });
      return model.granted(this.lineUp(scene, mine), scene.holdIn(reply));
    }
    if (keepPlace) {
      const place = this.lineUp(scene, mine);
      scene.open.disown(place);
      scene.kept();
      return this.expectKept(scene, place, reply);
    }
    expectReply(reply, 409, { code: 'lock-held' });
    const { holder, next } = reply.body as Record<'holder' | 'next', { leaseId: string } | undefined>;
    const told = this.isShownAsHolder(head) ? holder : next;
    if (mine === undefined && told?.leaseId !== scene.lease(head?.client as number).leaseId)
      throw new Error(`the head of the line is not who is named as the holder, or as the next: ${inWords(reply)}`);
    if (mine !== undefined) scene.leave(mine);
  }

  /** Whether it is granted at once. */
  protected isFree({ model }: S, mine: Place | undefined): boolean {
    return mine === undefined ? model.isFree(this.given.wish) : model.admits(mine);
  }

  /** Whether who is first in line is named as the holder. */
  protected isShownAsHolder(head: Place | undefined): boolean {
    return head?.hold !== undefined;
  }

  protected body(_scene: S): object {
    const { requestId, wish } = this.given;
    return wish.mode === 'read' || wish.mode === 'write' ? { requestId, mode: wish.mode } : { requestId };
  }

  /** What is refused however the line stands. */
  protected refusal(_scene: S, mine: Place | undefined): Refusal | undefined {
    const { mode, count } = this.given.wish;
    const same = mine === undefined || isDeepStrictEqual([mine.mode, mine.count], [mode, count]);
    return same ? undefined : { status: 409, members: { code: 'conflict' } };
  }

  /** @returns the place that it has from now on */
  protected lineUp(scene: S, mine: Place | undefined): Place {
    const { client, requestId, wish } = this.given;
    const place = mine ?? { client, requestId, ...wish };
    if (mine === undefined) scene.model.join(place);
    return place;
  }

  protected expectKept({ words }: S, _place: Place, reply: Reply): void {
    expectReply(reply, 202, { [words.held]: false, requestId: this.given.requestId });
  }

  /** Further arguments, as a failure shows them. */
  protected more(): string[] {
    const { mode, count } = this.given.wish;
    return count === undefined ? [mode] : [`${count}`];
  }

  toString(): string {
    const { at, client, requestId, waits, keepPlace } = this.given;
    const words = [...this.more(), `at ${at}`, ...(waits ? ['waits'] : []), ...(keepPlace ? ['keepPlace'] : [])];
    return `acquire(${client}/${requestId}, ${words.join(', ')})`;
  }
}

/**
 * The same request as the one of a place that stands in line: what a client sends whose answer was lost, or that kept
 * its place.
 */
export class AcquireAgain<S extends LineScene = LineScene> extends Command<S> {
  /** @param request makes the command that lines up */
  constructor(
    scene: () => S,
    private readonly given: Pick<AcquireArguments, 'at' | 'waits' | 'keepPlace'> & { choice: number },
    private readonly request: (given: AcquireArguments) => Acquire<S>,
  ) {
    super(scene);
  }

  override check(): boolean {
    return super.check() && this.scene().model.places.length > 0;
  }

  act(scene: S): Promise<void> {
    const { choice, ...given } = this.given;
    const { places } = scene.model;
    const { client, requestId, mode, count, priority } = places[choice % places.length] as Place;
    return this.request({ ...given, client, requestId, wish: { mode, count, priority } }).act(scene);
  }

  toString(): string {
    const { at, choice, waits, keepPlace } = this.given;
    return `acquireAgain(${choice}, at ${at}${waits ? ', waits' : ''}${keepPlace ? ', keepPlace' : ''})`;
  }
}
