/**
 * The requests of one sequence that wait for an answer.
 *
 * One whose place was taken away from it, or taken over by a repetition, at the other replica learns that late; it is
 * a *leftover*, and may be answered in any way but one: that it holds.
 */
import type { Reply } from '../../../support/http/client.js';
import type { Place } from './model.js';
import type { At } from './site.js';

interface OpenRequest {
  at: At;
  stop: AbortController;
  answer: Promise<Reply | undefined>;
}

export class OpenRequests {
  readonly #waiting = new Map<Place, OpenRequest>();
  #leftovers: OpenRequest[] = [];
  readonly #violations: string[] = [];

  get size(): number {
    return this.#waiting.size + this.#leftovers.length;
  }

  /** Sends the one that waits for a place from now on. @returns its answer; undefined when it was cut off */
  add(place: Place, at: At, keepPlace: boolean, send: (signal: AbortSignal) => Promise<Reply>): OpenRequest['answer'] {
    this.disown(place);
    const stop = new AbortController();
    const answer = send(stop.signal).catch(() => undefined);
    place.waiting = { keepPlace };
    this.#waiting.set(place, { at, stop, answer });
    return answer;
  }

  answerTo(place: Place): OpenRequest['answer'] | undefined {
    return this.#waiting.get(place)?.answer;
  }

  /** At which replica somebody waits for the place. */
  siteOf(place: Place): At | undefined {
    return this.#waiting.get(place)?.at;
  }

  /** The request has been answered. */
  done(place: Place): void {
    this.#waiting.delete(place);
  }

  /** The request that waits for the place, if there is one, has nothing to wait for any more. */
  disown(place: Place): void {
    delete place.waiting;
    const request = this.#waiting.get(place);
    if (request === undefined) return;
    this.#waiting.delete(place);
    this.#leftovers.push(request);
    void request.answer.then((reply) => {
      if (reply?.status === 200)
        this.#violations.push(`a request without a place was granted ${JSON.stringify(reply.body)}`);
    });
  }

  /** The client of one of them, leftovers included, hangs up. @returns the place that it waited for */
  async hangUp(choice: number): Promise<{ place: Place; keepPlace: boolean } | undefined> {
    const open = [...this.#waiting];
    const index = choice % this.size;
    const [place, request] = open[index] ?? [undefined, this.#leftovers[index - open.length] as OpenRequest];
    request.stop.abort();
    await request.answer;
    this.#leftovers = this.#leftovers.filter((other) => other !== request);
    if (place === undefined) return undefined;
    this.#waiting.delete(place);
    const keepPlace = place.waiting?.keepPlace === true;
    delete place.waiting;
    return { place, keepPlace };
  }

  /** The replica was killed. @throws when it answered before, though nothing was to be answered */
  async cutOff(at: At): Promise<void> {
    for (const [place, request] of [...this.#waiting]) {
      if (request.at !== at) continue;
      const reply = await request.answer;
      if (reply !== undefined) throw new Error(`a killed replica answered ${reply.status}`);
      this.#waiting.delete(place);
      delete place.waiting;
    }
    this.#leftovers = this.#leftovers.filter((request) => request.at !== at);
  }

  /** @throws when one has been answered that has nothing to be told, or was granted a place that it does not have */
  async check(): Promise<void> {
    for (const [place, { answer }] of this.#waiting) {
      const early = await Promise.race([answer, Promise.resolve('waits' as const)]);
      if (early !== 'waits') throw new Error(`client ${place.client} waits and was answered ${inWords(early)}`);
    }
    if (this.#violations.length > 0) throw new Error(this.#violations.join('; '));
  }

  /** Leaves nothing open. @throws as `check`, of the leftovers */
  async stop(): Promise<void> {
    const open = [...this.#waiting.values(), ...this.#leftovers];
    for (const { stop } of open) stop.abort();
    await Promise.all(open.map(({ answer }) => answer));
    if (this.#violations.length > 0) throw new Error(this.#violations.join('; '));
  }
}

export function inWords(reply: Reply | undefined): string {
  return reply === undefined ? 'not at all' : `${reply.status} ${JSON.stringify(reply.body)}`;
}
