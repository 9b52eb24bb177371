/** A semaphore: the line, and the number of permits that is agreed on. */
import type { Client } from '../../../support/http/client.js';
import { expectShown, LineScene } from '../../line/model/scene.js';
import { SemaphoreModel } from './model.js';
import type { Site } from '../../line/model/site.js';

export class SemaphoreScene extends LineScene<SemaphoreModel> {
  constructor(site: Site, name: string) {
    super(site, 'semaphores', name, new SemaphoreModel());
  }

  protected override async compare(replica: Client): Promise<void> {
    const page = (await replica.expect(200, 'GET', `/v1/semaphores/${this.name}`)) as Record<string, unknown>;
    expectShown(
      { limit: page['limit'], permitsHeld: page['permitsHeld'] },
      { limit: this.model.limit ?? null, permitsHeld: this.model.permitsHeld },
    );
    await super.compare(replica);
  }
}
