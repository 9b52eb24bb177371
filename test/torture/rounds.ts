/**
 * Rounds of one kind: clients of all processes work on a few objects for a while, then on the next ones. So histories
 * stay short enough to be judged, and are judged while the run goes on.
 *
 *   begin ──(some time)──▶ end: every client finishes what it is doing
 *     ──(all have reported, all is calm)──▶ settled by one client alone ──▶ judged
 *     └── the next round begins as soon as this one is told to end: who was stopped holds up the judgement only
 */
import { History, NotApplied } from '../histories/history.js';
import type { Operation } from '../histories/linearizable.js';
import type { Circumstances } from '../histories/workload.js';
import { workloads } from '../histories/workloads/index.js';
import type { Client } from '../support/http/client.js';
import { passed } from '../support/eventually.js';
import { scaled } from '../support/timing.js';
import type { ClientProcess, Said } from './client-process.js';
import type { Judge } from './judge.js';

type Histories = Extract<Said, { say: 'done' }>['histories'];
type Operations = readonly Operation<unknown, unknown>[];

const OBJECTS = 3;
/** A client that was stopped reports when it goes on. */
const REPORT_WITHIN_MS = scaled(60_000);
const RETRY_MS = 100;
const SETTLE_WITHIN_MS = scaled(120_000);

export interface RoundsOptions {
  readonly kind: string;
  readonly processes: readonly ClientProcess[];
  /** In each process. */
  readonly clients: number;
  readonly roundMs: number;
  /** How long the first one is, so that not all kinds change at once. */
  readonly firstMs: number;
  readonly judge: Judge;
  /** What has been going on so far. */
  readonly circumstances: () => Circumstances;
  /** Told what is worked on after this. */
  readonly next: (objects: readonly string[]) => void;
  /** Does this when nothing is struck, for a while at least, and not too many others do. */
  readonly inPeace: <T>(work: () => Promise<T>) => Promise<T>;
  /** For what is done afterwards; goes to whichever replica serves. */
  readonly client: Client;
  readonly outcome: (outcome: RoundOutcome) => void;
}

export interface RoundOutcome {
  readonly kind: string;
  readonly object: string;
  readonly operations: Operations;
  readonly complaints: readonly string[];
  readonly undecided: string | undefined;
  readonly judgedMs: number;
}

export class Rounds {
  readonly #reports = new Map<number, Histories[]>();
  readonly #concluding: Promise<void>[] = [];

  constructor(readonly options: RoundsOptions) {}

  /** @param over resolves when no further round shall begin @returns when the last one is judged */
  async run(over: Promise<void>, isOver: () => boolean): Promise<void> {
    const { kind, processes, clients, roundMs, firstMs } = this.options;
    for (let number = 1; !isOver(); number += 1) {
      const objects = objectsOf(kind, number);
      this.options.next(objectsOf(kind, number + 1));
      this.#reports.set(number, []);
      for (const one of processes) one.tell({ do: 'begin', round: { kind, number, objects, clients } });
      await Promise.race([passed(number === 1 ? firstMs : roundMs), over]);
      for (const one of processes) one.tell({ do: 'end', kind, number });
      this.#concluding.push(this.#conclude(number, over));
    }
    await Promise.all(this.#concluding);
  }

  report(number: number, histories: Histories): void {
    this.#reports.get(number)?.push(histories);
  }

  async #conclude(number: number, over: Promise<void>): Promise<void> {
    const { kind, processes, outcome } = this.options;
    const reports = this.#reports.get(number) as Histories[];
    const deadline = performance.now() + REPORT_WITHIN_MS;
    while (reports.length < processes.length && performance.now() < deadline) await passed(RETRY_MS);
    this.#reports.delete(number);
    if (reports.length < processes.length) {
      // With operations missing nothing can be said of the others.
      const complaints = [`only ${reports.length} of ${processes.length} processes came to the end of round ${number}`];
      outcome({ kind, object: kind, operations: [], complaints, undecided: undefined, judgedMs: 0 });
      return;
    }
    const objects = new Set(reports.flatMap((histories) => Object.keys(histories)));
    await Promise.all(
      [...objects].map((object) =>
        this.#judge(
          object,
          reports.flatMap((histories) => histories[object] ?? []),
          over,
        ),
      ),
    );
  }

  async #judge(object: string, operations: Operations, over: Promise<void>): Promise<void> {
    const { kind, judge, outcome } = this.options;
    // What is struck while one client alone empties and looks holds that up, and shows nothing.
    const settled = await this.options
      .inPeace(() => this.#settle(object, over))
      .catch((error: unknown) => error as Error);
    if (settled === undefined || settled instanceof Error) {
      const complaints = [
        `could not be settled within ${SETTLE_WITHIN_MS} ms of peace (${settled?.message ?? 'no end'})`,
      ];
      outcome({ kind, object, operations, complaints, undecided: undefined, judgedMs: 0 });
      return;
    }
    const all = [...operations, ...settled];
    const { complaints, undecided, ms } = await judge.of(kind, all, this.options.circumstances());
    outcome({ kind, object, operations: all, complaints, undecided, judgedMs: ms });
  }

  /** @returns what was done, or undefined when it could not be done although nothing was struck any more */
  async #settle(object: string, over: Promise<void>): Promise<Operations | undefined> {
    const settle = workloads[this.options.kind]?.settle?.bind(workloads[this.options.kind]);
    const history = new History<unknown, unknown>();
    if (settle === undefined) return [];
    const settling = (async () => {
      for (;;) {
        try {
          await settle(history, this.options.client, object);
          return history.of(object);
        } catch (error) {
          if (!(error instanceof NotApplied)) throw error;
          await passed(RETRY_MS);
        }
      }
    })();
    return Promise.race([settling, over.then(() => passed(SETTLE_WITHIN_MS)).then(() => undefined)]);
  }
}

function objectsOf(kind: string, round: number): string[] {
  return Array.from({ length: OBJECTS }, (_, i) => `${kind}-${round}-${i}`);
}
