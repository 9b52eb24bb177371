/** A lock by priority: the line with its room, and the priorities that are shown of those who wait. */
import type { Client } from '../../../support/http/client.js';
import { expectShown, LineScene } from '../../line/model/scene.js';
import type { Site } from '../../line/model/site.js';
import { PriorityModel } from './model.js';

export class PriorityScene extends LineScene<PriorityModel> {
  constructor(site: Site, name: string) {
    super(site, 'locks', name, new PriorityModel());
  }

  protected override async compare(replica: Client): Promise<void> {
    const { waiters } = (await replica.showLock(this.name)) as { waiters: { priority?: number }[] };
    expectShown(
      { priorities: waiters.map(({ priority }) => priority) },
      { priorities: this.model.others().map(({ priority }) => priority) },
    );
    await super.compare(replica);
  }
}
