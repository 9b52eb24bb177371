/** One run: the stage is set, struck and mended, and everything that was found wrong is gathered. */
import { now } from '../histories/history.js';
import { passed } from '../support/eventually.js';
import { randomFrom, seedOf } from '../support/random.js';
import { scaled } from '../support/timing.js';
import type { ClientProcess, Said, Slow } from './client-process.js';
import { FAULTS, type Fault } from './faults.js';
import { Judge } from './judge.js';
import { LateAcks } from './late-acks.js';
import { Pursuit } from './pursuit.js';
import { Relay } from './relay.js';
import { RoamingClient } from './roaming-client.js';
import { Rounds, type RoundOutcome } from './rounds.js';
import { LANES, type Blow, type Lane } from './schedule.js';
import { REQUEST_TIMEOUT_MS, Stage } from './stage.js';
import { Stalls } from './stalls.js';
import { Tally } from './tally.js';
import { WatchedClient } from './watched-client.js';

export interface TortureOptions {
  readonly main: string;
  readonly seed: number;
  readonly lengthMs: number;
  readonly schedule: readonly Blow[];
  readonly kinds: readonly string[];
  readonly replicas: number;
  readonly processes: number;
  /** Of each kind in each process. */
  readonly clients: number;
  readonly pauseMs: number;
  readonly roundMs: number;
  readonly keepGoing: boolean;
  readonly say: (line: string) => void;
}

/** Half a tick, and what a busy machine adds to it. */
const TOUCH_LAG_MS = scaled(500);
/** When all is mended replicas start, sessions find other servers, and leases of those who went away still stand. */
const RECOVERY_MS = scaled(4_000);
/** The schedule rests every minute; what began before may take longer than it should. */
const CALM_WITHIN_MS = scaled(120_000);
const LOOK_EVERY_MS = 100;
/** Locks that go from one to the next. */
const RELAYS = 2;
/** Somebody who stood still needs a moment to work off what has come meanwhile. */
const AFTER_STANDSTILL_MS = scaled(2_000);

export class Torture {
  readonly #tally = new Tally();
  readonly #stalls = new Stalls();
  readonly #rounds = new Map<string, Rounds>();
  /** While a fault lasts, and for a while afterwards. */
  readonly #disturbed: { begin: number; end: number }[] = [];
  #stage: Stage | undefined;
  #startedAt = 0;
  #isOver = false;
  #end = (): void => undefined;

  constructor(readonly options: TortureOptions) {}

  async run(): Promise<{ tally: Tally; tookMs: number; notes: string[] }> {
    const { main, seed, replicas, processes, pauseMs, lengthMs } = this.options;
    await using stage = await Stage.start({
      main,
      seed,
      replicas,
      processes,
      pauseMs,
      listen: (said, from) => this.#hear(said, from),
    });
    this.#stage = stage;
    this.#startedAt = now();
    this.options.say(`the stage is set in ${stage.directory}`);
    const over = new Promise<void>((resolve) => {
      this.#end = () => {
        this.#isOver = true;
        resolve();
      };
    });
    const timer = setTimeout(this.#end, lengthMs);
    const judge = new Judge();
    try {
      const rounds = this.#startRounds(stage, judge, over);
      const probes = this.#startProbes(stage);
      await Promise.all(LANES.map((lane) => this.#strikeAll(stage, lane, over)));
      await over;
      await this.#recover(stage);
      await Promise.all([rounds, ...probes.map(({ ended }) => ended)]);
      this.#logs(stage);
      const notes = probes.map(({ note }) => note());
      return { tally: this.#tally, tookMs: now() - this.#startedAt, notes };
    } finally {
      clearTimeout(timer);
      judge.stop();
    }
  }

  /** Of the driver itself, one for each replica. */
  #replicas(stage: Stage): WatchedClient[] {
    const watch = {
      answered: (): void => undefined,
      complain: (complaint: string): void => this.#complain(complaint),
      slow: (slow: Slow): void => this.#slow(slow, []),
      stalledSince: (time: number): number => this.#stalls.since(time),
    };
    return stage.replicas.map(({ url }) => new WatchedClient(url, stage.key, REQUEST_TIMEOUT_MS, watch));
  }

  /** What rounds of many clients do not do. @returns what to wait for, and what to say of it in the end */
  #startProbes(stage: Stage): { ended: Promise<void>; note: () => string }[] {
    const { kinds, seed } = this.options;
    const surroundings = (name: string) => ({
      replicas: this.#replicas(stage),
      random: randomFrom(seedOf(seed, name)),
      isOver: () => this.#isOver,
      complain: (complaint: string) => this.#complain(complaint),
    });
    const locks = kinds.includes('lock') ? Array.from({ length: RELAYS }, (_, i) => `relay-${i + 1}`) : [];
    const relays = locks.map((lock) => {
      const disturbedSince = (time: number): boolean => this.#disturbedSince(time);
      const relay = new Relay({ lock, disturbedSince, ...surroundings(lock) });
      const note = (): string =>
        `${lock}: ${relay.judged} hand-overs in peace, the slowest after ${Math.round(relay.slowestMs)} ms`;
      return { name: lock, running: relay.run(), note };
    });
    const queues = kinds.includes('claims') ? ['late-acks'] : [];
    const lateAcks = queues.map((queue) => {
      const late = new LateAcks({ queue, ...surroundings(queue) });
      return { name: queue, running: late.run(), note: () => `${queue}: ${late.tried} tried` };
    });
    const pursuits = kinds.includes('lock') ? ['pursuit'] : [];
    const pursuing = pursuits.map((lock) => {
      const pursuit = new Pursuit({ lock, ...surroundings(lock) });
      return { name: lock, running: pursuit.run(), note: () => `${lock}: ${pursuit.tried} tried` };
    });
    return [...relays, ...lateAcks, ...pursuing].map(({ name, running, note }) => ({
      ended: running.catch((error: unknown) => this.#complain(`${name}: ${(error as Error).message}`)),
      note,
    }));
  }

  #startRounds(stage: Stage, judge: Judge, over: Promise<void>): Promise<void[]> {
    const { kinds, clients, roundMs } = this.options;
    const replicas = this.#replicas(stage);
    return Promise.all(
      kinds.map((kind, i) => {
        const rounds = new Rounds({
          kind,
          processes: stage.clients,
          clients,
          roundMs,
          firstMs: (roundMs * (i + 1)) / kinds.length,
          judge,
          calm: () => this.#calm(),
          circumstances: () => ({ touchLagMs: TOUCH_LAG_MS, disturbed: this.#disturbed }),
          next: (objects) => void stage.nextObjects.set(kind, objects),
          client: new RoamingClient(replicas),
          outcome: (outcome) => this.#judged(outcome),
        });
        this.#rounds.set(kind, rounds);
        return rounds.run(over, () => this.#isOver);
      }),
    );
  }

  /** One blow after the other; each is mended even when the run is over. */
  async #strikeAll(stage: Stage, lane: Lane, over: Promise<void>): Promise<void> {
    for (const blow of this.options.schedule.filter((one) => one.lane === lane)) {
      const wait = blow.at - (now() - this.#startedAt);
      if (wait > 0) await Promise.race([passed(wait), over]);
      if (this.#isOver) return;
      const fault = FAULTS.find(({ name }) => name === blow.fault) as Fault;
      const disturbance = { begin: now(), end: Infinity };
      this.#disturbed.push(disturbance);
      try {
        const { what, mend } = await fault.strike(stage, randomFrom(blow.seed));
        this.#tally.struck(fault.name);
        this.options.say(`${this.#clock()} ${fault.name}: ${what}, for ${blow.lastsMs} ms`);
        await Promise.race([passed(blow.lastsMs), over]);
        await mend();
      } catch (error) {
        this.#complain(`${fault.name} could not be done or mended: ${(error as Error).message}`);
      }
      disturbance.end = now() + RECOVERY_MS;
    }
  }

  #disturbedSince(time: number): boolean {
    return this.#disturbed.some(({ end }) => end > time);
  }

  async #calm(): Promise<void> {
    const until = now() + CALM_WITHIN_MS;
    while (this.#disturbedSince(now()) && now() < until) await passed(LOOK_EVERY_MS);
  }

  async #recover(stage: Stage): Promise<void> {
    this.options.say(`${this.#clock()} all is mended`);
    for (const replica of stage.replicas)
      await replica.ready().catch((error: unknown) => this.#complain((error as Error).message));
    for (const server of stage.ensemble.nodes)
      if ((await server.mode()) === undefined)
        this.#complain(`server ${server.id} of the ensemble does not serve any more`);
  }

  #hear(said: Said, from: ClientProcess): void {
    switch (said.say) {
      case 'ready':
        return;
      case 'done':
        return this.#rounds.get(said.kind)?.report(said.number, said.histories);
      case 'complaint':
        return this.#complain(said.complaint);
      case 'slow':
        return this.#slow(said.slow, [from.name]);
      case 'served':
        return this.#tally.served(said.tenths, said.answers);
    }
  }

  #slow({ what, url, begin, end, limitMs }: Slow, who: readonly string[]): void {
    if (this.#stage?.stoodStill([url, ...who], begin - AFTER_STANDSTILL_MS, end)) return;
    // The proxies stood still too.
    if (end - begin - this.#stalls.since(begin) <= limitMs) return;
    this.#complain(`${what} at ${url} took ${Math.round(end - begin)} ms, and should within ${Math.round(limitMs)} ms`);
  }

  #judged(outcome: RoundOutcome): void {
    this.#tally.judged(outcome);
    const { object, operations, complaints } = outcome;
    if (complaints.length === 0) return;
    this.#complain(`${object}: ${complaints.join('; ')}`, {
      operations: [...operations].sort((a, b) => a.begin - b.begin),
      calls: this.#stage?.callsOf(`/${object}`),
    });
  }

  #complain(what: string, evidence?: unknown): void {
    const at = this.#startedAt === 0 ? 0 : now() - this.#startedAt;
    this.#tally.violations.push({ at, what, ...(evidence !== undefined && { evidence }) });
    this.options.say(`${this.#clock()} VIOLATION ${what}`);
    if (!this.options.keepGoing) this.#end();
  }

  /** What needs a person: a process that ended by itself is a violation, and so is every line at `error` or `fatal`. */
  #logs(stage: Stage): void {
    for (const replica of stage.replicas) {
      for (const end of replica.unexpectedEnds) this.#complain(end);
      for (const line of replica.logged('error', 'fatal')) this.#complain(`${replica.name} logged ${line}`);
    }
  }

  #clock(): string {
    return `${((now() - this.#startedAt) / 1_000).toFixed(1)} s`;
  }
}
