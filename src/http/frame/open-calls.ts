/**
 * The calls in progress, and what ends them from outside: the drain of the replica, and a credential that no longer
 * allows them.
 *
 * Authorization is checked when a call arrives. Waits and streams go on for minutes, so they are checked again at each
 * change of the keys and rules, and end at the latest when their token expires.
 */
import { isPosternError, PosternError } from '../../errors.js';
import { atInstant } from '../../time.js';
import type { Authentication } from '../access/auth.js';
import { forbidden, isAllowed } from '../access/authorization.js';
import { tokenExpired, type Call } from './call.js';

export class OpenCalls {
  readonly #authentication: Authentication;
  readonly #draining: AbortSignal;
  /**
   * The value cancels the timer for a call that its token bounds. Not listeners on a signal: removing one of thousands
   * walks over all of them.
   */
  readonly #calls = new Map<Call, (() => void) | undefined>();

  constructor(authentication: Authentication, draining: AbortSignal) {
    this.#authentication = authentication;
    this.#draining = draining;
    authentication.onChange(() => {
      for (const call of this.#calls.keys()) void this.#lookAgain(call);
    });
    draining.addEventListener('abort', () => {
      for (const call of this.#calls.keys()) call.abort('draining');
    });
  }

  add(call: Call): void {
    this.#calls.set(call, undefined);
    if (this.#draining.aborted) call.abort('draining');
  }

  /** @returns whether it was there */
  delete(call: Call): boolean {
    this.#calls.get(call)?.();
    return this.#calls.delete(call);
  }

  get all(): Iterable<Call> {
    return this.#calls.keys();
  }

  /** Call it when the call begins to wait. */
  beginWait(call: Call): void {
    const { until } = call.credential ?? {};
    if (until !== undefined)
      this.#calls.set(
        call,
        atInstant(until, () => call.refuse(tokenExpired())),
      );
  }

  async #lookAgain(call: Call): Promise<void> {
    const { credential: before, operation } = call;
    // For the others authorization was not checked yet, or never will be.
    if (before === undefined || operation === undefined || operation.isPublic) return;
    try {
      const credential = await this.#authentication.authenticate(call.request.headers);
      if (credential.principal.id !== before.principal.id)
        throw new PosternError('unauthenticated', 'The credential is that of another principal now.');
      call.credential = credential;
      const lacking = call.needs.find((asked) => !isAllowed(credential, asked));
      if (lacking !== undefined) throw forbidden(lacking);
    } catch (error) {
      // An unreachable identity provider revokes nothing.
      if (isPosternError(error, 'unauthenticated') || isPosternError(error, 'forbidden')) call.refuse(error);
    }
  }
}
