/**
 * Something that goes with the lease, with a signal that aborts before anybody else can have it.
 *
 * Guarantee: `signal` aborts no later than the deadline of the lease (see `lease.ts`), and `signal.aborted`, `ok` and
 * `assertHeld` judge by the clock themselves, so that they are right in the first turn after the program was stopped.
 * Not guaranteed: that a program that is stopped *between* such a look and what it does next still has it then. No
 * lock service can promise that: pass the fencing token along, and let what you write to compare it.
 */
import type { Schemas } from '../contract.js';
import { HoldLostError } from '../errors.js';
import type { CallOptions } from '../gateways/gateways.js';
import { now } from './clock.js';
import type { Held, Lease } from './lease.js';

/** What somebody who asks for a hold says: why, and when it will be broken, if it will be. */
export type Revocation = Pick<Schemas['Revocation'], 'reason' | 'breakAt'>;

export interface BoundOptions {
  lease: Lease;
  kind: string;
  name: string;
  holdId: string;
  /** Without it the signal aborts as soon as somebody asks for it. */
  onRevoke?: ((revocation: Revocation) => void) | undefined;
}

export abstract class Bound {
  readonly kind: string;
  readonly name: string;
  /** New for every grant. */
  readonly holdId: string;
  /**
   * Aborts when it is lost, is revoked, or may be lost because no heartbeat has been answered; its `reason` is a
   * `HoldLostError`, whose `cause` says which. It does not abort when it is given back.
   *
   * A look at `aborted` may be what aborts it. Whoever waits for it adds the listener first and looks then; one that is
   * added to a signal made with `AbortSignal.any` must be followed by such a look too.
   */
  readonly signal: AbortSignal;
  readonly #lease: Lease;
  readonly #controller = new AbortController();
  readonly #held: Held;
  #over = false;

  constructor({ lease, kind, name, holdId, onRevoke }: BoundOptions) {
    this.kind = kind;
    this.name = name;
    this.holdId = holdId;
    this.#lease = lease;
    this.signal = judgedSignal(this.#controller.signal, () => !this.#over && lease.judge());
    let asked = false;
    this.#held = {
      kind,
      name,
      holdId,
      lose: (reason) => this.#controller.abort(reason),
      revoke: (revocation) => {
        if (asked) return; // every heartbeat is answered with it until it is released
        asked = true;
        if (onRevoke) return onRevoke(revocation);
        const detail = `somebody asks for ${kind} "${name}": ${revocation.reason ?? 'no reason given'}`;
        this.#controller.abort(new HoldLostError('revoked', detail));
      },
    };
    lease.add(this.#held);
  }

  /** How long it is certain if no heartbeat is answered any more, in milliseconds: then `signal` aborts. */
  get leftMs(): number {
    return this.ok() ? Math.max(0, this.#lease.deadline - now()) : 0;
  }

  /** Whether this client has it at this moment, as far as it can know. */
  ok(): boolean {
    return !this.#over && !this.signal.aborted;
  }

  /** @throws HoldLostError if this client does not have it at this moment */
  assertHeld(): void {
    this.signal.throwIfAborted();
    if (this.#over) throw new HoldLostError('lost', `${this.kind} "${this.name}" has been given back`);
  }

  /** For a request that needs it. */
  protected get call(): CallOptions {
    return { leaseToken: this.#lease.token, signals: [this.signal] };
  }

  /** From here on the program does not claim to have it, however long giving it back takes. */
  protected async end<T>(giveBack: () => Promise<T>): Promise<T> {
    this.#over = true;
    try {
      return await giveBack();
    } finally {
      this.#lease.remove(this.#held);
    }
  }

  /**
   * As `end`, for what becomes something else.
   *
   * @param stays whether what it threw says that it is as it was
   */
  protected async turn<T>(ask: () => Promise<T>, stays: (error: unknown) => boolean): Promise<T> {
    this.#over = true;
    try {
      const turned = await ask();
      this.#lease.remove(this.#held);
      return turned;
    } catch (error) {
      if (stays(error)) this.#over = false;
      throw error;
    }
  }
}

/** `signal`, but whoever looks whether it is aborted has the clock looked at first: no timer has run after a pause. */
function judgedSignal(signal: AbortSignal, judge: () => unknown): AbortSignal {
  const plain = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted') as PropertyDescriptor;
  return Object.defineProperties(signal, {
    aborted: {
      configurable: true,
      get: () => {
        judge();
        return plain.get?.call(signal) as boolean;
      },
    },
    throwIfAborted: {
      configurable: true,
      value: () => {
        if (signal.aborted) throw signal.reason;
      },
    },
  });
}
