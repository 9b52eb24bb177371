/**
 * The module of a process full of clients: does the rounds that the driver tells it to do, all at the same time, and
 * hands their histories back.
 */
import { createWriteStream } from 'node:fs';
import process from 'node:process';
import { History, NotApplied, now } from '../histories/history.js';
import type { Operation } from '../histories/linearizable.js';
import type { Scene } from '../histories/workload.js';
import { workloads } from '../histories/workloads/index.js';
import { passed } from '../support/eventually.js';
import { below, randomFrom, seedOf } from '../support/random.js';
import type { ClientSettings, Round, Said, Told } from './client-process.js';
import { Stalls } from './stalls.js';
import { WatchedClient, type Call } from './watched-client.js';

const TELL_EVERY_MS = 1_000;

class Clients {
  readonly #replicas: readonly WatchedClient[];
  readonly #rounds = new Map<string, AbortController>();
  readonly #stalls = new Stalls();
  #crowd: number | undefined;
  #tenths = new Set<number>();
  #answers: Record<string, number> = {};

  constructor(readonly settings: ClientSettings) {
    const calls = createWriteStream(settings.callsFile);
    const watch = {
      called: (call: Call): void => void calls.write(`${JSON.stringify(call)}\n`),
      answered: (status: number): void => {
        this.#answers[status] = (this.#answers[status] ?? 0) + 1;
        if (status < 500) this.#tenths.add(Math.floor(now() / 100));
      },
      complain: (complaint: string): void => say({ say: 'complaint', complaint }),
      slow: (slow: Extract<Said, { say: 'slow' }>['slow']): void => say({ say: 'slow', slow }),
      stalledSince: (time: number): number => this.#stalls.since(time),
    };
    const { urls, key, requestTimeoutMs } = settings;
    this.#replicas = urls.map((url) => new WatchedClient(url, key, requestTimeoutMs, watch));
    setInterval(() => this.#tell(), TELL_EVERY_MS);
  }

  obey(told: Told): void {
    if (told.do === 'begin') void this.#run(told.round);
    if (told.do === 'end') this.#rounds.get(`${told.kind}-${told.number}`)?.abort();
    if (told.do === 'crowd') this.#crowd = told.replica;
  }

  async #run(round: Round): Promise<void> {
    const { kind, number, clients } = round;
    const over = new AbortController();
    this.#rounds.set(`${kind}-${number}`, over);
    const history = new History<unknown, unknown>();
    const names = Array.from({ length: clients }, (_, i) => `${this.settings.name}-${i}`);
    await Promise.all(names.map((name) => this.#client(round, name, history, over.signal))).catch((error: unknown) =>
      say({ say: 'complaint', complaint: `a client of ${kind} failed: ${(error as Error).stack}` }),
    );
    this.#rounds.delete(`${kind}-${number}`);
    const histories: Record<string, readonly Operation<unknown, unknown>[]> = {};
    for (const object of history.objects) histories[object] = history.of(object);
    say({ say: 'done', kind, number, histories });
  }

  async #client(round: Round, name: string, history: History<unknown, unknown>, signal: AbortSignal): Promise<void> {
    const { kind, number, objects } = round;
    const random = randomFrom(seedOf(this.settings.seed, `${kind}-${number}-${name}`));
    const scene: Scene = {
      random,
      replica: () => this.#replicas[this.#crowd ?? below(this.#replicas.length, random)] as WatchedClient,
      object: () => objects[below(objects.length, random)] as string,
      signal,
    };
    let act: (() => Promise<void>) | undefined;
    while (!signal.aborted) {
      await passed(random() * 2 * this.settings.pauseMs);
      try {
        act ??= await workloads[kind]?.start(history, scene, name);
        await act?.();
      } catch (error) {
        // The beginning of a client is no operation: whatever keeps it from having a lease, it comes again.
        if (act !== undefined && !(error instanceof NotApplied)) throw error;
      }
    }
  }

  #tell(): void {
    say({ say: 'served', tenths: [...this.#tenths], answers: this.#answers });
    this.#tenths = new Set();
    this.#answers = {};
  }
}

function say(said: Said): void {
  process.send?.(said);
}

let clients: Clients | undefined;
process.on('message', (message) => {
  const told = message as Told;
  if (told.do !== 'settings') return clients?.obey(told);
  clients = new Clients(told.settings);
  say({ say: 'ready' });
});
process.on('disconnect', () => process.exit(0));
