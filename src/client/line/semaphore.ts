/** A number of permits on which all callers agree, granted in order of arrival. */
import { Acquirable, extras } from './acquirable.js';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import type { AcquireOptions, Line } from './line.js';
import { shown } from '../state/observe.js';
import type { Using } from './using.js';

export interface SemaphoreOptions {
  /** How many permits there are. Only the first caller has to say it; another number is refused (`conflict`). */
  limit?: number;
  /** How many of them each acquire takes, 1 unless given. */
  permits?: number;
}

export class Semaphore extends Acquirable {
  readonly #options: SemaphoreOptions;

  constructor(context: Context, using: Using, name: string, options: SemaphoreOptions) {
    super(context, using, name);
    this.#options = options;
  }

  /** Who holds permits and who waits for them, now. */
  async show(): Promise<Schemas['Semaphore']> {
    return shown(await this.context.gateways.call('GET /v1/semaphores/{name}', { path: { name: this.name } }));
  }

  /** Permits add up: whoever asks again means more of them. */
  protected override key(): undefined {}

  protected override line({ data }: AcquireOptions = {}): Line {
    const { gateways } = this.context;
    const { limit, permits = 1 } = this.#options;
    const path = { name: this.name };
    const more = {
      ...extras(data === undefined ? {} : { data }),
      ...(limit !== undefined && { limit }),
      count: permits,
    };
    return {
      kind: 'semaphore',
      name: this.name,
      acquire: (place, call) =>
        gateways.call('POST /v1/semaphores/{name}/acquire', { path, body: { ...place, ...more } }, call),
      release: (body, call) => gateways.call('POST /v1/semaphores/{name}/release', { path, body }, call),
    };
  }
}
