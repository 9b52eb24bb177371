/** One run: the stage is set, struck and mended, and everything that was found wrong is gathered. */
import { now } from '../histories/history.js';
import { atOnce } from '../support/at-once.js';
import { passed } from '../support/eventually.js';
import { randomFrom } from '../support/random.js';
import { scaled } from '../support/timing.js';
import type { ClientProcess, Said, Slow } from './client-process.js';
import { FAULTS, type Fault } from './faults.js';
import { Judge } from './judge.js';
import { startProbes, type Probe } from './probes/probes.js';
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
  /** Where logs of replicas and servers are kept when something was found: the beginning of their names. */
  readonly logsTo: string;
  readonly say: (line: string) => void;
}

/** Half a tick, and what a busy machine adds to it. */
const TOUCH_LAG_MS = scaled(500);
/** When all is mended replicas start, sessions find other servers, and leases of those who went away still stand. */
const RECOVERY_MS = scaled(4_000);
/** The schedule rests every minute; what began before may take longer than it should. */
const CALM_WITHIN_MS = scaled(120_000);
const LOOK_EVERY_MS = 100;
/** Objects. When peace comes those of several rounds of every kind wait for it: all at once would starve each other. */
const SETTLED_AT_ONCE = 30;
/**
 * One server is away for a while, or hears late of things; the others go on. A leader that is stopped and not deposed
 * takes the time of all with it.
 */
const OF_ONE_SERVER: readonly string[] = ['hang-server', 'depose-leader', 'kill-leader', 'lag'];
/** Somebody who stood still needs a moment to work off what has come meanwhile. */
const AFTER_STANDSTILL_MS = scaled(2_000);

export class Torture {
  readonly #tally = new Tally();
  readonly #stalls = new Stalls();
  readonly #rounds = new Map<string, Rounds>();
  readonly #settling = atOnce(SETTLED_AT_ONCE);
  /** While a fault lasts, and for a while afterwards. */
  readonly #disturbed: { fault: string; begin: number; end: number }[] = [];
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
      await this.#compareServers(stage);
      if (this.#tally.violations.length > 0) await stage.keepLogs(this.options.logsTo);
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

  #startProbes(stage: Stage): Probe[] {
    const { kinds, seed } = this.options;
    return startProbes(kinds, {
      seed,
      replicas: this.#replicas(stage),
      isOver: () => this.#isOver,
      complain: (complaint) => this.#complain(complaint),
      disturbedSince: (time) => this.#disturbedSince(time),
      disturbedBeyondOneServer: (time) => this.#disturbedSince(time, OF_ONE_SERVER),
    });
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
          inPeace: (work) => this.#settling(() => this.#calm().then(work)),
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
      const disturbance = { fault: fault.name, begin: now(), end: Infinity };
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

  #disturbedSince(time: number, except: readonly string[] = []): boolean {
    return this.#disturbed.some(({ fault, end }) => end > time && !except.includes(fault));
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

  /** What a server has lost, or nobody else has, its clients take for what the gateway did. */
  async #compareServers({ ensemble }: Stage): Promise<void> {
    const leader = await ensemble.leader();
    const agreed = await leader.digests();
    for (const server of await ensemble.followers()) {
      const own = await server.digests();
      const last = [...own.keys()].findLast((zxid) => agreed.has(zxid));
      if (last !== undefined && own.get(last) !== agreed.get(last))
        this.#complain(`server ${server.id} of the ensemble has other data than server ${leader.id}, which leads`);
    }
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
