/** An exclusive lock, granted in order of arrival, or by priority. */
import { Acquirable, extras } from './acquirable.js';
import type { Schemas } from '../contract.js';
import type { AcquireOptions, Line } from './line.js';
import { reserveIn, type ReserveOptions } from './reservation.js';
import { observe, shown, type ObserveOptions } from '../state/observe.js';

export interface LockOptions extends AcquireOptions {
  /**
   * Takes the lock by priority, 0 to 10: of those who wait, the highest is granted next. All who use the lock say one.
   * Not together with `lockDelayMs`.
   */
  priority?: number;
}

export class Lock extends Acquirable<LockOptions> {
  /** Who holds it and who waits for it, now. */
  async show(): Promise<Schemas['Lock']> {
    return shown(await this.context.gateways.call('GET /v1/locks/{name}', { path: { name: this.name } }));
  }

  /** The lock now, and again whenever its holder has changed. */
  observe(options: ObserveOptions = {}): AsyncGenerator<Schemas['Lock'], void> {
    const path = { name: this.name };
    return observe(this.context, options, (look, call) =>
      this.context.gateways.call('GET /v1/locks/{name}', { path, ...look }, call),
    );
  }

  /**
   * Holds it for `forMs` without this client, which may end; whoever has the `reservationToken` extends or releases it.
   *
   * @throws PosternError `lock-held` if it was not granted in time; the reason of `options.signal`
   */
  reserve(options: ReserveOptions): Promise<Schemas['ReservedLock']> {
    return reserveIn(this.context, this.name, options);
  }

  /**
   * It then stands for at least `forMs` from now. An answer with a `reservationToken` replaces the one that was given.
   *
   * @throws PosternError `not-holder` if it has ended
   */
  async extendReservation(reservationToken: string, forMs: number): Promise<Schemas['ExtendedReservation']> {
    const parts = { path: { name: this.name }, body: { reservationToken, forMs } };
    return (await this.context.gateways.call('POST /v1/locks/{name}/reservation/extend', parts)).body;
  }

  /** @throws PosternError `not-holder` if it has ended */
  async releaseReservation(reservationToken: string): Promise<void> {
    const parts = { path: { name: this.name }, body: { reservationToken } };
    await this.context.gateways.call('POST /v1/locks/{name}/reservation/release', parts);
  }

  protected override key(): string {
    return `lock ${this.name}`;
  }

  protected override line({ priority, ...options }: LockOptions = {}): Line {
    const { gateways } = this.context;
    const path = { name: this.name };
    const more = { ...extras(options), ...(priority !== undefined && { priority }) };
    return {
      kind: 'lock',
      name: this.name,
      acquire: (place, call) =>
        gateways.call('POST /v1/locks/{name}/acquire', { path, body: { ...place, ...more } }, call),
      release: (body, call) => gateways.call('POST /v1/locks/{name}/release', { path, body }, call),
    };
  }
}
