/**
 * Somebody who hears of a message to a group as soon as it was posted, and looks for it at another replica, whose
 * server may not have heard of it yet: it is there, and every message stands there once, whatever became of the
 * connection over which it went.
 *
 * A replica reads nothing that is out of date behind something that it has written (pursuit.ts), so one replica is only
 * read from for a while. There are no requestIds: by one of those a message that is sent again would be known.
 */
import { passed } from '../../support/eventually.js';
import type { Client, Reply } from '../../support/http/client.js';
import { someReplica, type Surroundings } from './party.js';

export interface HearsayOptions extends Surroundings {
  readonly group: string;
  readonly complain: (complaint: string) => void;
}

interface Page {
  readonly messages: readonly { readonly number: number; readonly body: string }[];
  readonly cursor: number;
}

const PAUSE_MS = 5;
/** Then it posts at one replica, and reads at one, that may be others. */
const TURNS = 100;
/** Of one page. */
const LIMIT = 100;

export class Hearsay {
  /** Messages that were looked for. */
  tried = 0;
  #turns = 0;
  #cursor: number | undefined;
  readonly #numbers = new Map<string, number>();

  constructor(readonly options: HearsayOptions) {}

  async run(): Promise<void> {
    while (!this.options.isOver()) {
      const [there, here] = [someReplica(this.options), someReplica(this.options)];
      for (let i = 0; i < TURNS && !this.options.isOver(); i += 1) {
        const number = await this.#post(there);
        if (number !== undefined) await this.#look(here, number);
        await passed(PAUSE_MS);
      }
    }
  }

  /** @returns its number; undefined: nobody knows whether it was posted */
  async #post(replica: Client): Promise<number | undefined> {
    const { group } = this.options;
    const body = `${group}-${(this.#turns += 1)}`;
    const reply = await replica.call('POST', `/v1/groups/${group}/messages`, { body: { body } }).catch(() => undefined);
    return reply?.status === 201 ? (reply.body as { number: number }).number : undefined;
  }

  async #look(replica: Client, number: number): Promise<void> {
    const { group, complain } = this.options;
    for (;;) {
      const from = this.#cursor ?? number - 1;
      const path = `/v1/groups/${group}/messages?after=${from}&limit=${LIMIT}`;
      const reply: Reply | undefined = await replica.call('GET', path).catch(() => undefined);
      if (reply === undefined || reply.status >= 429) return;
      if (reply.status !== 200)
        return complain(`${group}: the cursor ${from} was refused with ${reply.status} after ${number} was posted`);
      const { messages, cursor } = reply.body as Page;
      for (const message of messages) this.#see(message);
      this.#cursor = cursor;
      if (messages.length === LIMIT) continue;
      this.tried += 1;
      if (cursor < number)
        complain(`${group}: behind ${from} there was nothing after ${cursor}, though ${number} was posted`);
      return;
    }
  }

  #see({ number, body }: Page['messages'][number]): void {
    const before = this.#numbers.get(body);
    if (before !== undefined && before !== number)
      this.options.complain(`${this.options.group}: ${body} stands there twice, as ${before} and as ${number}`);
    this.#numbers.set(body, number);
  }
}
