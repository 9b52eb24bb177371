/** Several exclusive locks, all or none. */
import { extras } from './acquirable.js';
import type { Context } from '../context.js';
import { PosternError } from '../errors.js';
import { Hold } from '../lease/hold.js';
import { grantIn, holdOf, type AcquireOptions, type Line } from './line.js';
import type { Schemas } from '../contract.js';

export class ManyLocks {
  readonly #context: Context;

  constructor(
    context: Context,
    readonly names: readonly string[],
  ) {
    this.#context = context;
  }

  /**
   * Acquires all of them, or none. The gateway takes them in the order of their names, whatever their order here, so
   * that callers that take their locks in this way do not wait for each other in a circle. No place in line is kept
   * from one request of a wait to the next: each begins again at the end.
   *
   * @returns one hold for each, in the order of `names`, with a fencing token and a signal of its own
   * @throws PosternError `lock-held` if they were not granted in time; the reason of `options.signal`
   */
  acquire(options: Omit<AcquireOptions, 'data'> = {}): Promise<Hold[]> {
    return grantIn(this.#context, this.#line(options), options, (lease, { items }) =>
      items.map((granted) => {
        const release = this.#releaseOf(granted.name);
        return new Hold(holdOf(this.#context, { kind: 'lock', name: granted.name, release }, lease, granted, options));
      }),
    );
  }

  #line(options: AcquireOptions): Line<Pick<Schemas['AcquiredLocks'], 'items'>> {
    const { gateways } = this.#context;
    const { names } = this;
    return {
      kind: 'locks',
      name: names.join(),
      acquire: async ({ keepPlace, ...place }, call) => {
        try {
          const body = { names: [...names], ...place, ...extras(options) };
          return await gateways.call('POST /v1/locks/acquire', { body }, call);
        } catch (error) {
          const goesOn = keepPlace && error instanceof PosternError && error.code === 'lock-held';
          if (!goesOn) throw error;
          return { status: 202 };
        }
      },
      release: (which, call) => Promise.all(names.map((name) => this.#releaseOf(name)(which, call))),
    };
  }

  #releaseOf(name: string): Line['release'] {
    return (body, call) => this.#context.gateways.call('POST /v1/locks/{name}/release', { path: { name }, body }, call);
  }
}
