/**
 * `postern queue tail`: looks into a queue again and again, and prints what it has not seen before. Nothing is taken,
 * so nothing tells it of a message that came and went between two looks.
 *
 * A queue in order of arrival grows at its end: each look begins at the last full page before that. One with priorities
 * may grow anywhere, and is read as a whole.
 */
import type { Postern, Schemas } from '../../client/index.js';
import { pause } from '../../client/lease/clock.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { tail as description } from '../commands/queue.js';
import { UsageError } from '../exit.js';
import { jsonText, visible } from '../output.js';
import { withClient } from './client.js';

type Message = Schemas['PeekedMessage'];

const INTERVAL_MIN_MS = 100;
/** Of the first look, which reads all that is there. */
const FIRST_PAGE = 1_000;
/** Of the others: so many messages at most are read again with every look. */
const PAGE = 100;
/** A message that is given back with a delay is away for a moment: so many are remembered beyond those there are. */
const REMEMBERED = 10_000;

export async function tail(given: GivenFor<typeof description>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { interval, all } = given.values;
  if (interval < INTERVAL_MIN_MS)
    throw new UsageError(`--interval is ${interval}ms; ${INTERVAL_MIN_MS}ms is the least`);
  return withClient(given, async (postern) => {
    const looks = new Looks(postern, name, (await postern.queue(name).show()).config.order !== 'priority');
    const print = (message: Message): void =>
      given.output.result(message, () => visible(`${message.id}  ${message.bodyBase64 ?? jsonText(message.body)}`));
    for await (const message of looks.look(FIRST_PAGE, given.values.timeout)) if (all) print(message);
    for (;;) {
      await pause(interval);
      for await (const message of looks.look(PAGE, Infinity)) print(message);
    }
  });
}

class Looks {
  /** Where the last full page ends that need not be read again. */
  #from: string | undefined;
  /** The ids of messages, those that were seen last at the end. */
  readonly #seen = new Set<string>();
  readonly #postern: Postern;
  readonly #name: string;
  readonly #inOrder: boolean;

  constructor(postern: Postern, name: string, inOrder: boolean) {
    this.#postern = postern;
    this.#name = name;
    this.#inOrder = inOrder;
  }

  /** @returns what was not seen before */
  async *look(limit: number, patienceMs: number): AsyncGenerator<Message, void> {
    let there = 0;
    for (let token = this.#from; ;) {
      const query = { limit, ...(token !== undefined && { pageToken: token }) };
      const parts = { path: { name: this.#name }, query, patienceMs };
      const { items, nextPageToken } = (await this.#postern.request('GET /v1/queues/{name}/messages', parts)).body;
      there += items.length;
      yield* items.filter(({ id }) => this.#isNew(id));
      if (nextPageToken === undefined) break;
      token = nextPageToken;
      // Those that are not due yet stand behind the place at which the queue grows.
      if (this.#inOrder && items.at(-1)?.dueAt === undefined) this.#from = token;
    }
    for (const id of this.#seen) {
      if (this.#seen.size <= there + REMEMBERED) return;
      this.#seen.delete(id);
    }
  }

  #isNew(id: string): boolean {
    const known = this.#seen.delete(id);
    this.#seen.add(id);
    return !known;
  }
}
