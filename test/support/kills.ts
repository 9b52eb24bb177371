/** Replicas that are killed while they work, and the client that asks them as a client should. */
import { passed } from './eventually.js';
import type { Client, Reply } from './http/client.js';
import type { ReplicaProcess } from './start-gateway.js';

const RETRIES = 400;

/** The same request again, at the next replica, until one answers it; 503 is no answer. */
export async function askInTurn(
  replicas: readonly Client[],
  at: number,
  send: (replica: Client) => Promise<Reply>,
): Promise<Reply> {
  for (let i = 0; i < RETRIES; i += 1) {
    const reply = await send(replicas[(at + i) % replicas.length] as Client).catch(() => undefined); // killed
    if (reply !== undefined && reply.status !== 503) return reply;
    await passed(5);
  }
  throw new Error('no replica answers');
}

/** Replicas that die while they answer, and are started again at once, beside one that lives. */
export class MortalReplicas {
  readonly #doomed: readonly ReplicaProcess[];
  readonly #replicas: readonly Client[];
  readonly #restarting: Promise<void>[];

  constructor(doomed: readonly ReplicaProcess[], bystander: Client) {
    this.#doomed = doomed;
    this.#replicas = [...doomed, bystander];
    this.#restarting = doomed.map(() => Promise.resolve());
  }

  /**
   * @param at where the request begins: the number of the replica, or any number that counts on
   * @param kills kills that replica while it answers, if it is doomed
   */
  ask(at: number, kills: boolean, send: (replica: Client) => Promise<Reply>): Promise<Reply> {
    const first = at % this.#replicas.length;
    let isFirst = true;
    return askInTurn(this.#replicas, first, async (replica) => {
      const asking = send(replica).catch(() => undefined);
      if (kills && isFirst) await this.#crash(first);
      isFirst = false;
      const reply = await asking;
      if (reply === undefined) throw new Error('killed');
      return reply;
    });
  }

  async #crash(at: number): Promise<void> {
    const victim = this.#doomed[at];
    if (victim === undefined) return;
    await this.#restarting[at];
    await victim.kill();
    this.#restarting[at] = victim.restart();
  }

  /** All that were killed serve again. */
  async restarted(): Promise<void> {
    await Promise.all(this.#restarting);
  }
}

/** Kills one after the other, and starts it again, until the returned function is called. */
export function killInTurns(doomed: readonly ReplicaProcess[]): () => Promise<void> {
  let isOver = false;
  const killing = (async () => {
    for (let i = 0; !isOver; i += 1) {
      const victim = doomed[i % doomed.length] as ReplicaProcess;
      await victim.kill();
      await victim.restart();
    }
  })();
  return () => {
    isOver = true;
    return killing;
  };
}
