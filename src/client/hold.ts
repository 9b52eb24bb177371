/**
 * Something that this client holds, with a signal that aborts before anybody else can hold it.
 *
 * Guarantee: `signal` aborts no later than the deadline of the lease (see `lease.ts`), and `signal.aborted`, `ok` and
 * `assertHeld` judge by the clock themselves, so that they are right in the first turn after the program was stopped.
 * Not guaranteed: that a program that is stopped *between* such a look and what it does next has not lost the hold by
 * then. No lock service can promise that: pass `fencingToken` along, and let what you write to compare it.
 */
import type { Schemas } from './contract.js';
import { HoldLostError, type LossCause } from './errors.js';
import type { Held, Lease } from './lease.js';

/** What somebody who asks for a hold says: why, and when it will be broken, if it will be. */
export type Revocation = Pick<Schemas['Revocation'], 'reason' | 'breakAt'>;

export interface HoldOptions {
  lease: Lease;
  kind: string;
  name: string;
  holdId: string;
  fencingToken: number;
  /** Gives it back at the gateway; it is called once. */
  release: () => Promise<void>;
  /** Without it the signal aborts as soon as somebody asks for the hold. */
  onRevoke?: ((revocation: Revocation) => void) | undefined;
}

export class Hold implements AsyncDisposable {
  readonly kind: string;
  readonly name: string;
  /** New for every grant. */
  readonly holdId: string;
  /** Strictly increases with every grant of the name. */
  readonly fencingToken: number;
  /**
   * Aborts when the hold is lost, is revoked, or may be lost because no heartbeat has been answered; its `reason` is a
   * `HoldLostError`, whose `cause` says which. It does not abort when the hold is released.
   */
  readonly signal: AbortSignal;
  readonly #lease: Lease;
  readonly #controller = new AbortController();
  readonly #held: Held;
  readonly #give: () => Promise<void>;
  #released: Promise<void> | undefined;

  constructor({ lease, kind, name, holdId, fencingToken, release, onRevoke }: HoldOptions) {
    this.kind = kind;
    this.name = name;
    this.holdId = holdId;
    this.fencingToken = fencingToken;
    this.#lease = lease;
    this.#give = release;
    this.signal = judgedSignal(this.#controller.signal, () => this.#released === undefined && lease.judge());
    let asked = false;
    this.#held = {
      kind,
      name,
      holdId,
      lose: (reason) => this.#controller.abort(reason),
      revoke: (revocation) => {
        if (asked) return; // every heartbeat is answered with it until the hold is released
        asked = true;
        if (onRevoke) onRevoke(revocation);
        else this.#lose('revoked', `somebody asks for ${kind} "${name}": ${revocation.reason ?? 'no reason given'}`);
      },
    };
    lease.add(this.#held);
  }

  /** Whether it is held at this moment, as far as this client can know. */
  ok(): boolean {
    return this.#released === undefined && !this.signal.aborted;
  }

  /** @throws HoldLostError if it is not held at this moment */
  assertHeld(): void {
    this.signal.throwIfAborted();
    if (this.#released) throw new HoldLostError('lost', `${this.kind} "${this.name}" has been released`);
  }

  /**
   * Gives it back. Resolves once the gateway has said so, or that there is nothing left to give back.
   *
   * @throws PosternError if no gateway has confirmed it in time; it is repeated until the lease ends
   */
  release(): Promise<void> {
    this.#released ??= this.#give().finally(() => this.#lease.remove(this.#held));
    return this.#released;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  #lose(cause: LossCause, detail: string): void {
    this.#controller.abort(new HoldLostError(cause, detail));
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
