/** What is said of a lock by priority only: with which priority one asks, and who came and went meanwhile. */
import { Acquire, type Refusal } from '../../line/model/acquire.js';
import { Command } from '../../line/model/command.js';
import type { Place } from '../../line/model/model.js';
import type { PriorityScene } from './scene.js';

const CONFLICT: Refusal = { status: 409, members: { code: 'conflict' } };

/** With a priority, or without one. */
export class AcquireRanked extends Acquire<PriorityScene> {
  protected override body(scene: PriorityScene): object {
    const { priority } = this.given.wish;
    return { ...super.body(scene), ...(priority !== undefined && { priority }) };
  }

  /** The order of the lock, and with which priority a place waits, stay what they are; what is held stays held. */
  protected override refusal({ model }: PriorityScene, mine: Place | undefined): Refusal | undefined {
    const { priority } = this.given.wish;
    if (priority !== undefined && !model.byPriority) {
      if (model.places.length > 0) return CONFLICT;
      model.byPriority = true;
    }
    if (mine === undefined) return model.byPriority && priority === undefined ? CONFLICT : undefined;
    return mine.hold !== undefined || mine.priority === priority ? undefined : CONFLICT;
  }

  /** Who neither waits nor stays passes nobody, also where its rank is better. */
  protected override isFree(scene: PriorityScene, mine: Place | undefined): boolean {
    const { wish, keepPlace } = this.given;
    return mine === undefined && keepPlace ? scene.model.isNext(wish) : super.isFree(scene, mine);
  }

  protected override more(): string[] {
    const { priority } = this.given.wish;
    return [priority === undefined ? 'by arrival' : `priority ${priority}`];
  }
}

/** Others, by the hundred, whom this sequence sees nothing of but that they used up numbers. */
export class ComeAndGo extends Command<PriorityScene> {
  constructor(
    scene: () => PriorityScene,
    readonly hundreds: number,
  ) {
    super(scene);
  }

  override check(): boolean {
    return super.check() && this.scene().model.byPriority;
  }

  async act({ site, name, model }: PriorityScene): Promise<void> {
    await site.comeAndGo(name, this.hundreds * 100);
    model.hundreds += this.hundreds;
  }

  toString(): string {
    return `comeAndGo(${this.hundreds * 100})`;
  }
}
