/**
 * Somebody who gives a message back, and acknowledges it when somebody else has it by then: it is told that it has it
 * no more, and who has it acknowledges it. (A release that comes late, of a hold that somebody else has by then, is
 * tried in `relay.ts`.)
 */
import { passed } from '../../support/eventually.js';
import { Party, type Surroundings } from './party.js';

export interface LateAcksOptions extends Surroundings {
  readonly queue: string;
  readonly complain: (complaint: string) => void;
}

const TTL_MS = 5_000;
const PAUSE_MS = 1_000;

interface Claimed {
  readonly id: string;
  readonly claimId: string;
}

export class LateAcks {
  /** Tries in which somebody else had the message by then. */
  tried = 0;
  #turns = 0;

  constructor(readonly options: LateAcksOptions) {}

  async run(): Promise<void> {
    while (!this.options.isOver()) {
      await this.#turn();
      await passed(PAUSE_MS);
    }
  }

  async #turn(): Promise<void> {
    const { queue, complain } = this.options;
    const name = `${queue}-${(this.#turns += 1)}`;
    const [first, second] = [
      await Party.join(this.options, `${name}-first`, TTL_MS),
      await Party.join(this.options, `${name}-second`, TTL_MS),
    ];
    if (first === undefined || second === undefined) return;
    await first.ask(`/v1/queues/${queue}/messages`, { messages: [{ body: name, messageId: name }] }, [201]);
    const mine = await this.#claim(first, `${name}-mine`);
    if (mine !== undefined) {
      await first.ask(`/v1/queues/${queue}/nack`, { claimIds: [mine.claimId] }, [200, 410]);
      const theirs = await this.#claim(second, `${name}-theirs`);
      if (theirs?.id === mine.id) {
        this.tried += 1;
        if ((await this.#ack(first, mine)) === 'done')
          complain(
            `${queue}: a claim of ${mine.id} that was given back was acknowledged while somebody else had the message`,
          );
      }
      if (theirs !== undefined) await this.#ack(second, theirs);
    }
    await first.leave();
    await second.leave();
  }

  async #claim(party: Party, requestId: string): Promise<Claimed | undefined> {
    const body = { max: 1, waitMs: 500, requestId };
    const reply = await party.ask(`/v1/queues/${this.options.queue}/claim`, body, [200, 204, 410]);
    return reply?.status === 200 ? (reply.body as { items: Claimed[] }).items[0] : undefined;
  }

  async #ack(party: Party, { claimId }: Claimed): Promise<'done' | 'not'> {
    const reply = await party.ask(`/v1/queues/${this.options.queue}/ack`, { claimIds: [claimId] }, [200, 410]);
    const item =
      reply?.status === 200 ? (reply.body as { items: { status: number; gone?: boolean }[] }).items[0] : undefined;
    return item?.status === 200 && item.gone !== true ? 'done' : 'not';
  }
}
