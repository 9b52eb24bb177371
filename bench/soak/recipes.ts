/**
 * Every recipe, used slowly and all the time: the clients of the torture, with nothing struck. What they were told is
 * held against what the recipe promises, and their objects are removed, so that what is left over is left by mistake.
 */
import { join } from 'node:path';
import { workloads } from '../../test/histories/workloads/index.js';
import { passed } from '../../test/support/eventually.js';
import { ClientProcess, type Said } from '../../test/torture/client-process.js';
import { Judge } from '../../test/torture/judge.js';
import { RoamingClient } from '../../test/torture/roaming-client.js';
import { Rounds, type RoundOutcome } from '../../test/torture/rounds.js';
import { WatchedClient } from '../../test/torture/watched-client.js';
import { ROOT } from '../servers.js';
import type { Tally } from './tally.js';

const CLIENTS_OF_A_KIND = 3;
/** On average, between two operations of one client. */
const PAUSE_MS = 1_000;
const ROUND_MS = 60_000;
/** Of a replica that nobody has told otherwise. */
const REQUEST_TIMEOUT_MS = 10_000;
/** Every call of the last run, for whoever has to find out what happened. */
const CALLS = join(ROOT, '.cache/soak-calls.jsonl');

const REMOVE_WITHIN_MS = 60_000;
const REMOVE_AGAIN_MS = 1_000;

/** What stays until somebody deletes it, by kind. The rest goes when nobody is there any more, or by housekeeping. */
const REMOVED: Readonly<Record<string, (object: string) => string>> = {
  ...Object.fromEntries(
    ['queue', 'claims', 'expiring', 'grouped', 'schedule'].map((kind) => [
      kind,
      (object: string) => `/v1/queues/${object}?force=true`,
    ]),
  ),
  barrier: (object) => `/v1/barriers/${object}`,
  config: (object) => `/v1/config/${object}`,
  counter: (object) => `/v1/counters/${object}`,
  pool: (object) => `/v1/pools/${object}`,
  'resting-pool': (object) => `/v1/pools/${object}`,
};

export class Recipes {
  readonly #rounds = new Map<string, Rounds>();
  readonly #removing = new Set<Promise<void>>();
  readonly #judge = new Judge();
  #clients: ClientProcess | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isOver = false;
  #end = (): void => undefined;

  constructor(readonly tally: Tally) {}

  async start(ports: readonly number[]): Promise<void> {
    const urls = ports.map((port) => `http://127.0.0.1:${port}`);
    const over = new Promise<void>((resolve) => (this.#end = resolve));
    this.#clients = await ClientProcess.start(
      {
        ...{ name: 'recipes', seed: 1, urls, callsFile: CALLS, key: 'nobody-asks-for-it' },
        ...{ requestTimeoutMs: REQUEST_TIMEOUT_MS, pauseMs: PAUSE_MS },
      },
      (said) => this.#hear(said),
    );
    const watch = {
      answered: (): void => undefined,
      complain: (complaint: string): void => this.tally.violation(complaint),
      slow: (): void => undefined,
      stalledSince: (): number => 0,
    };
    const client = new RoamingClient(
      urls.map((url) => new WatchedClient(url, 'nobody-asks-for-it', REQUEST_TIMEOUT_MS, watch)),
    );
    const kinds = Object.keys(workloads);
    this.#running = Promise.all(
      kinds.map((kind, i) => {
        const rounds = new Rounds({
          ...{ kind, client, judge: this.#judge, processes: [this.#clients as ClientProcess] },
          ...{ clients: CLIENTS_OF_A_KIND, roundMs: ROUND_MS, firstMs: (ROUND_MS * (i + 1)) / kinds.length },
          inPeace: (work) => work(),
          circumstances: () => ({ touchLagMs: 0 }),
          next: () => undefined,
          outcome: (outcome) => this.#judged(outcome, client),
        });
        this.#rounds.set(kind, rounds);
        return rounds.run(over, () => this.#isOver);
      }),
    );
  }

  /** Until the last objects are judged and removed. */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.#end();
    await this.#running;
    await Promise.all(this.#removing);
    await this.#clients?.stop();
    this.#judge.stop();
  }

  #hear(said: Said): void {
    if (said.say === 'done') this.#rounds.get(said.kind)?.report(said.number, said.histories);
    if (said.say === 'complaint') this.tally.violation(said.complaint);
    if (said.say === 'slow')
      this.tally.violation(`${said.slow.what} was answered after ${Math.round(said.slow.end - said.slow.begin)} ms`);
  }

  #judged({ kind, object, operations, complaints }: RoundOutcome, client: RoamingClient): void {
    this.tally.operations += operations.length;
    this.tally.objects += 1;
    for (const complaint of complaints) this.tally.violation(`${object}: ${complaint}`);
    const path = REMOVED[kind]?.(object);
    if (path === undefined) return;
    const removing = this.#remove(client, path).finally(() => this.#removing.delete(removing));
    this.#removing.add(removing);
  }

  async #remove(client: RoamingClient, path: string): Promise<void> {
    for (const until = performance.now() + REMOVE_WITHIN_MS; performance.now() < until;) {
      const reply = await client.call('DELETE', path).catch(() => undefined);
      if (reply !== undefined && [204, 404].includes(reply.status)) return;
      await passed(REMOVE_AGAIN_MS);
    }
    this.tally.violation(`DELETE ${path} was not done within ${REMOVE_WITHIN_MS} ms`);
  }
}
