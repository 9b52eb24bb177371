/** A client that goes to the next replica with every request: what one person does, whichever replicas live. */
import type { Dispatcher } from 'undici';
import { Client, type CallOptions, type Reply } from '../support/http/client.js';
import { passed } from '../support/eventually.js';

/** After a request that was answered by nobody, or with 5xx: somebody is being started again. */
const AFTER_FAILURE_MS = 100;

export class RoamingClient extends Client {
  #turn = 0;

  constructor(readonly replicas: readonly Client[]) {
    super('http://whichever');
  }

  override async call(method: Dispatcher.HttpMethod, path: string, options: CallOptions = {}): Promise<Reply> {
    const replica = this.replicas[(this.#turn += 1) % this.replicas.length] as Client;
    try {
      const reply = await replica.call(method, path, options);
      if (reply.status >= 500) await passed(AFTER_FAILURE_MS);
      return reply;
    } catch (error) {
      await passed(AFTER_FAILURE_MS);
      throw error;
    }
  }
}
