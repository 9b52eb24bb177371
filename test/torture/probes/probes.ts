/** What rounds of many clients cannot show: a few people beside them, each looking for one thing. */
import type { Client } from '../../support/http/client.js';
import { randomFrom, seedOf } from '../../support/random.js';
import { GivenUp } from './given-up.js';
import { Hearsay } from './hearsay.js';
import { Keeper } from './keeper.js';
import { LateAcks } from './late-acks.js';
import type { Surroundings } from './party.js';
import { Pursuit } from './pursuit.js';
import { Relay } from './relay.js';

/** Locks that go from one to the next. */
const RELAYS = 2;
/** People who give up what they asked for. */
const QUITTERS = 3;

export interface Probe {
  /** Resolves when it is over; never rejects. */
  readonly ended: Promise<void>;
  /** What there is to say of it in the end. */
  readonly note: () => string;
}

export interface ProbeOptions {
  readonly seed: number;
  readonly replicas: readonly Client[];
  readonly isOver: () => boolean;
  readonly complain: (complaint: string) => void;
  /** Whether anything was struck, or was not mended for long enough, at some time since then. */
  readonly disturbedSince: (time: number) => boolean;
  /** The same, but for one server of the ensemble. */
  readonly disturbedBeyondOneServer: (time: number) => boolean;
}

interface Prober {
  run(): Promise<void>;
}

const tried = (prober: { readonly tried: number }): string => `${prober.tried} tried`;

/** @param kinds of recipes that are worked on: what looks for something of another kind is left out */
export function startProbes(kinds: readonly string[], options: ProbeOptions): Probe[] {
  const { complain, disturbedSince, disturbedBeyondOneServer } = options;
  const start = <P extends Prober>(
    name: string,
    make: (surroundings: Surroundings & { complain: ProbeOptions['complain'] }) => P,
    note: (prober: P) => string,
  ): Probe => {
    const { seed, replicas, isOver } = options;
    const prober = make({ replicas, random: randomFrom(seedOf(seed, name)), isOver, complain });
    const ended = prober.run().catch((error: unknown) => complain(`${name}: ${(error as Error).message}`));
    return { ended, note: () => `${name}: ${note(prober)}` };
  };
  const several = (name: string, count: number): string[] =>
    Array.from({ length: count }, (_, i) => `${name}-${i + 1}`);
  const relay = (lock: string): Probe =>
    start(
      lock,
      (around) => new Relay({ lock, disturbedSince, ...around }),
      ({ judged, slowestMs }) => `${judged} hand-overs in peace, the slowest after ${Math.round(slowestMs)} ms`,
    );
  const givenUp = (name: string): Probe => start<GivenUp>(name, (around) => new GivenUp({ name, ...around }), tried);
  const probes = [
    start(
      'keeper',
      (around) => new Keeper({ name: 'keeper', disturbedBeyondOneServer, ...around }),
      ({ beats, ended }) => `${beats} heartbeats, ${ended} leases ended`,
    ),
    ...several('given-up', QUITTERS).map(givenUp),
  ];
  if (kinds.includes('lock'))
    probes.push(
      ...several('relay', RELAYS).map(relay),
      start<Pursuit>('pursuit', (around) => new Pursuit({ lock: 'pursuit', ...around }), tried),
    );
  if (kinds.includes('claims'))
    probes.push(start<LateAcks>('late-acks', (around) => new LateAcks({ queue: 'late-acks', ...around }), tried));
  if (kinds.includes('messages'))
    probes.push(start<Hearsay>('hearsay', (around) => new Hearsay({ group: 'hearsay', ...around }), tried));
  return probes;
}
