/**
 * The other workers of this replica. Whatever a replica reports about itself is gathered from all of them, through the
 * process that started them (`supervisor.ts`).
 *
 *   a worker ──gather──▶ supervisor ──ask──▶ every worker ──answer──▶ supervisor ──gathered──▶ the worker that asked
 *
 * A worker that does not answer in time is left out. A process without workers answers itself.
 */
import cluster from 'node:cluster';

/** When to stop waiting for answers: below the usual timeout of scrapers. */
const ANSWERED_WITHIN_MS = 2_000;

/** Questions by name. Answers must survive JSON. */
export type Questions = Readonly<Record<string, (argument: unknown) => unknown>>;

export type Message =
  | { readonly postern: 'gather'; readonly id: number; readonly question: string; readonly argument: unknown }
  | { readonly postern: 'ask'; readonly id: number; readonly question: string; readonly argument: unknown }
  | { readonly postern: 'answer'; readonly id: number; readonly answer: unknown }
  | { readonly postern: 'gathered'; readonly id: number; readonly answers: readonly unknown[] };

export function isMessage(message: unknown): message is Message {
  return typeof message === 'object' && message !== null && 'postern' in message;
}

export class Siblings {
  readonly #questions: Questions;
  readonly #waiting = new Map<number, (answers: readonly unknown[]) => void>();
  readonly #onMessage = (message: unknown): void => void this.#take(message);
  #lastId = 0;

  /** @param questions those that this worker answers */
  constructor(questions: Questions) {
    this.#questions = questions;
    if (cluster.isWorker) process.on('message', this.#onMessage);
  }

  /**
   * Asks all workers, including this one.
   * @returns their answers in no particular order; at least this worker's own
   */
  async gather<T>(question: string, argument?: unknown): Promise<readonly T[]> {
    if (!cluster.isWorker || process.send === undefined) return [(await this.#questions[question]?.(argument)) as T];
    const id = (this.#lastId += 1);
    const { promise, resolve } = deferred<readonly unknown[] | undefined>();
    this.#waiting.set(id, resolve);
    const late = setTimeout(() => resolve(undefined), 2 * ANSWERED_WITHIN_MS);
    try {
      send({ postern: 'gather', id, question, argument });
      // If the supervisor is gone, only this worker is left, and not for long.
      return ((await promise) ?? [await this.#questions[question]?.(argument)]) as readonly T[];
    } finally {
      clearTimeout(late);
      this.#waiting.delete(id);
    }
  }

  close(): void {
    process.off('message', this.#onMessage);
  }

  async #take(message: unknown): Promise<void> {
    if (!isMessage(message)) return;
    if (message.postern === 'gathered') this.#waiting.get(message.id)?.(message.answers);
    if (message.postern !== 'ask') return;
    const answer = await this.#questions[message.question]?.(message.argument);
    send({ postern: 'answer', id: message.id, answer });
  }
}

/** The supervisor's side: forwards questions and returns the answers. */
export class Exchange {
  readonly #open = new Map<number, { answer: (from: number, value: unknown) => void }>();
  #lastId = 0;

  /** @param message a message from `worker` */
  take(worker: { readonly id: number; send(message: Message): boolean }, message: unknown, all: readonly Peer[]): void {
    if (!isMessage(message)) return;
    if (message.postern === 'answer') this.#open.get(message.id)?.answer(worker.id, message.answer);
    if (message.postern !== 'gather') return;
    const { id, question, argument } = message;
    const missing = new Set(all.map((peer) => peer.id));
    const answers: unknown[] = [];
    const own = (this.#lastId += 1);
    const finish = (): void => {
      clearTimeout(late);
      this.#open.delete(own);
      sendTo(worker, { postern: 'gathered', id, answers });
    };
    const late = setTimeout(finish, ANSWERED_WITHIN_MS);
    this.#open.set(own, {
      answer(from, value) {
        if (!missing.delete(from)) return;
        answers.push(value);
        if (missing.size === 0) finish();
      },
    });
    for (const peer of all) sendTo(peer, { postern: 'ask', id: own, question, argument });
  }
}

export interface Peer {
  readonly id: number;
  send(message: Message): boolean;
}

/** The process may be ending. If it does not take the message, it does not answer either. */
function sendTo(peer: Peer, message: Message): void {
  try {
    peer.send(message);
  } catch {
    // Its channel has just been closed.
  }
}

function send(message: Message): void {
  try {
    process.send?.(message);
  } catch {
    // The supervisor is gone, and this worker ends with it.
  }
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}
