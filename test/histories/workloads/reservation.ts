/**
 * Clients who reserve locks, and clients who acquire the same locks under leases (`lock.ts`): who reserves asks again
 * where it was not told, extends and releases by the token, or leaves the reservation to its end.
 *
 *   none ─reserve▶ asked ─told▶ held ─release▶ leaving ─answered▶ none
 *                   │ ▲          │ ▲             │ ▲
 *       refused: none └ nothing  │ └ extended    │ └ told nothing
 *                                └──────────────▶└──▶ none: left to its end
 *
 * A request is repeated only as long as what an earlier try has got must still stand: later it would be another
 * reservation, of the same requestId.
 */
import { randomUUID } from 'node:crypto';
import type { Reply } from '../../support/http/client.js';
import { below } from '../../support/random.js';
import { now } from '../history.js';
import type { LineInput, LineOutput } from '../holds.js';
import { reservationComplaints } from '../reservations.js';
import { ANSWER_WITHIN_MS, ask, expected, type Recorder, type Scene, type Workload } from '../workload.js';
import { holderTokens } from './line.js';
import { lock } from './lock.js';

type Line = Recorder<LineInput, LineOutput>;

interface Reservation {
  readonly object: string;
  readonly requestId: string;
  readonly by: string;
  readonly forMs: number;
  state: 'new' | 'asked' | 'held' | 'leaving';
  /** When it was asked for the first time. */
  readonly asked: number;
  reservationToken?: string;
  fencingToken?: number;
}

/** Until when it stands, and when its client was told, on the clock of `now`. */
interface Until {
  readonly until: number;
  readonly told: number;
}

const FOR_MS = [1_500, 5_000] as const;
const EXTENSION_MS = [1_000, 2_500] as const;
const WAIT_MAX_MS = 1_500;
/** A place that nobody asks for any more stands until its lease has ended. */
const PLACE_GONE_MS = 12_000;
/** To which clients know the clock of the ensemble, which is that of their machine. */
const CLOCK_MS = 50;

class Reserver {
  #reservation: Reservation | undefined;

  constructor(
    readonly history: Line,
    readonly scene: Scene,
    readonly client: string,
  ) {}

  async act(): Promise<void> {
    const choice = this.scene.random();
    const reservation = this.#reservation;
    if (reservation === undefined) {
      if (choice < 0.3) return this.#show(this.scene.object());
      return this.#reserve((this.#reservation = this.#next()));
    }
    if (choice < 0.1) this.#reservation = undefined;
    else if (reservation.state === 'new' || reservation.state === 'asked') await this.#reserve(reservation);
    else if (reservation.state === 'leaving' || choice < 0.3) await this.#release(reservation);
    else if (choice < 0.7) await this.#extend(reservation);
    else await this.#show(reservation.object);
  }

  #next(): Reservation {
    const requestId = randomUUID();
    const by = `${this.client}/${requestId.slice(0, 8)}`;
    return { object: this.scene.object(), requestId, by, forMs: this.#between(FOR_MS), state: 'new', asked: now() };
  }

  async #reserve(reservation: Reservation): Promise<void> {
    const { object, by, requestId, forMs, state, asked } = reservation;
    const waitMs = this.scene.random() < 0.3 ? 0 : below(WAIT_MAX_MS, this.scene.random);
    const withinMs = waitMs + ANSWER_WITHIN_MS;
    if (state === 'asked' && now() + withinMs > asked + forMs) {
      this.#reservation = undefined;
      return;
    }
    reservation.state = 'asked';
    const body = { forMs, owner: this.client, requestId, waitMs, keepPlace: this.scene.random() < 0.3 };
    let stands: Until | undefined;
    const output = await this.history.record(object, this.client, { do: 'acquire', by, waitMs }, async () => {
      const reply = await this.#ask(object, 'reserve', body, withinMs);
      if (reply === undefined) return undefined;
      const answer = reply.body as Record<string, unknown>;
      if (reply.status === 202 || reply.status === 503) return { kept: true };
      if (reply.status === 409) return answer['code'] === 'lock-held' ? { refused: true } : undefined;
      reservation.reservationToken = String(answer['reservationToken']);
      reservation.fencingToken = answer['fencingToken'] as number;
      stands = untilOf(reply);
      return { token: reservation.fencingToken };
    });
    if (output !== undefined && 'refused' in output) this.#reservation = undefined;
    else if (stands === undefined) this.#mayStand(reservation, forMs + PLACE_GONE_MS);
    else {
      reservation.state = 'held';
      this.#stands(reservation, stands);
    }
  }

  /** Its client is told whether it still has the lock, as by a check. */
  async #extend(reservation: Reservation): Promise<void> {
    const { object, reservationToken, fencingToken: token = -1 } = reservation;
    const forMs = this.#between(EXTENSION_MS);
    let stands: Until | undefined;
    const output = await this.history.record(object, this.client, { do: 'check', token }, async () => {
      const reply = await this.#ask(object, 'reservation/extend', { reservationToken, forMs });
      if (reply?.status === 200) stands = untilOf(reply);
      return reply && { done: reply.status === 200 };
    });
    if (stands !== undefined) this.#stands(reservation, stands);
    else if (output === undefined) this.#mayStand(reservation, forMs);
    else this.#reservation = undefined;
  }

  async #release(reservation: Reservation): Promise<void> {
    const { object, by, reservationToken } = reservation;
    reservation.state = 'leaving';
    const output = await this.history.record(object, this.client, { do: 'release', by }, async () => {
      const reply = await this.#ask(object, 'reservation/release', { reservationToken });
      return reply && { done: reply.status === 204 };
    });
    if (output !== undefined) this.#reservation = undefined;
  }

  async #show(object: string): Promise<void> {
    await this.history.record(object, this.client, { do: 'show' }, async () => {
      const reply = await ask(this.scene.replica(), 'GET', `/v1/locks/${object}`);
      return reply && { tokens: holderTokens(expected(reply, [200]).body) };
    });
  }

  #stands({ object, by }: Reservation, { until, told }: Until): void {
    const input = { do: 'reserved', lease: by, until } as const;
    this.history.add(object, { client: this.client, begin: told, end: told, input, output: { ok: true } });
  }

  /** What was not answered has been done by now, or within the time of an answer, or not at all. */
  #mayStand({ object, by }: Reservation, forMs: number): void {
    const input = { do: 'reserved', lease: by, until: now() + ANSWER_WITHIN_MS + forMs } as const;
    this.history.add(object, { client: this.client, begin: now(), end: Infinity, input, output: undefined });
  }

  /** @returns undefined when it is not known what came of it */
  async #ask(object: string, verb: string, body: unknown, withinMs = ANSWER_WITHIN_MS): Promise<Reply | undefined> {
    const path = `/v1/locks/${object}/${verb}`;
    const reply = await ask(this.scene.replica(), 'POST', path, { body, withinMs });
    return reply && expected(reply, [200, 202, 204, 409, 503]);
  }

  #between([least, most]: readonly [number, number]): number {
    return least + below(most - least, this.scene.random);
  }
}

function untilOf({ body }: Reply): Until {
  const told = now();
  const { reservedUntil } = body as { reservedUntil: string };
  return { told, until: told + Date.parse(reservedUntil) - Date.now() - CLOCK_MS };
}

export const reservation: Workload<LineInput, LineOutput> = {
  kind: 'reservation',
  async start(history, scene, client) {
    const reserver = new Reserver(history, scene, `${client}-reserves`);
    const underLease = await lock.start(history, scene, client);
    return () => (scene.random() < 0.6 ? reserver.act() : underLease());
  },
  settle: (history, replica, object) => lock.settle?.(history, replica, object) ?? Promise.resolve(),
  check: (operations, circumstances) => reservationComplaints(operations, circumstances),
};
