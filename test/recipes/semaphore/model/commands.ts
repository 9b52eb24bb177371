/** What is said of a semaphore only: how many permits one wants, and how many there are. */
import { Acquire, type AcquireArguments, type Refusal } from '../../line/model/acquire.js';
import { Command, expectReply } from '../../line/model/command.js';
import type { Place } from '../../line/model/model.js';
import type { SemaphoreScene } from './scene.js';
import type { At } from '../../line/model/site.js';

/** Whoever comes first says how many there are, unless somebody has set it. */
const FIRST_LIMIT = 3;

export class AcquirePermits extends Acquire<SemaphoreScene> {
  /** @param limit how many there are, as the client takes it; undefined: as is agreed */
  constructor(
    scene: () => SemaphoreScene,
    given: AcquireArguments,
    readonly limit: number | undefined,
  ) {
    super(scene, given);
  }

  protected override body(scene: SemaphoreScene): object {
    return { ...super.body(scene), limit: this.#limit(scene), count: this.given.wish.count };
  }

  protected override refusal(scene: SemaphoreScene, mine: Place | undefined): Refusal | undefined {
    const limit = this.#limit(scene);
    if ((this.given.wish.count ?? 1) > limit) return { status: 422, members: { code: 'invalid', field: 'count' } };
    const refusal = super.refusal(scene, mine);
    if (refusal !== undefined) return refusal;
    const agreed = (scene.model.limit ??= limit);
    if (mine !== undefined || agreed === limit) return undefined;
    return { status: 409, members: { code: 'conflict', limit: agreed } };
  }

  #limit({ model }: SemaphoreScene): number {
    return this.limit ?? model.limit ?? FIRST_LIMIT;
  }

  protected override more(): string[] {
    return [...super.more(), ...(this.limit === undefined ? [] : [`of ${this.limit}`])];
  }
}

export class SetLimit extends Command<SemaphoreScene> {
  constructor(
    scene: () => SemaphoreScene,
    readonly at: At,
    readonly limit: number,
  ) {
    super(scene);
  }

  async act(scene: SemaphoreScene): Promise<void> {
    const path = `/v1/semaphores/${scene.name}`;
    const reply = await scene.site.replicas[this.at].call('PUT', path, { body: { limit: this.limit } });
    expectReply(reply, 200, { limit: this.limit });
    scene.model.limit = this.limit;
  }

  toString(): string {
    return `setLimit(${this.limit}, at ${this.at})`;
  }
}
