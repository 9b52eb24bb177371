/** A read-write lock: readers share it, a writer excludes everybody, in order of arrival. */
import { Acquirable, extras } from './acquirable.js';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { PosternError } from '../errors.js';
import { grantIn, type AcquireOptions, type Line } from './line.js';
import { shown } from '../state/observe.js';
import type { Using } from './using.js';
import { WriteHold, type Written } from './write-hold.js';

export interface AcquireWriteOptions extends AcquireOptions {
  /** Reserve the place of a reader, which is one more of the lease: the hold can be downgraded then. */
  downgradable?: boolean;
}

export class ReadWriteLock {
  /** Shared with other readers. */
  readonly read: Acquirable;
  /** Excludes everybody. */
  readonly write: Writer;
  readonly #context: Context;

  constructor(
    context: Context,
    using: Using,
    readonly name: string,
  ) {
    this.#context = context;
    this.read = new Side(context, using, name, 'read');
    this.write = new Writer(context, using, name, 'write');
  }

  /** Who holds it and who waits for it, now. */
  async show(): Promise<Schemas['Lock']> {
    return shown(await this.#context.gateways.call('GET /v1/rwlocks/{name}', { path: { name: this.name } }));
  }
}

class Side extends Acquirable {
  readonly #mode: 'read' | 'write';

  constructor(context: Context, using: Using, name: string, mode: 'read' | 'write') {
    super(context, using, name);
    this.#mode = mode;
  }

  /** Who writes may read. Who reads would wait for itself if it were to write, so it is told. */
  protected override key(using: Using): string {
    const [read, write] = [`rwlock ${this.name} read`, `rwlock ${this.name} write`];
    if (using.holds(write)) return write;
    if (this.#mode === 'read') return read;
    if (using.holds(read)) {
      const detail = `this reads under read-write lock "${this.name}": there is no upgrade, release it first`;
      throw new PosternError(detail, { code: 'no-upgrade' });
    }
    return write;
  }

  protected override line(options: AcquireWriteOptions = {}): Line<Schemas['AcquiredLock']> {
    const { gateways } = this.context;
    const path = { name: this.name };
    const { downgradable } = options;
    const more = { ...extras(options), mode: this.#mode, ...(downgradable !== undefined && { downgradable }) };
    return {
      kind: 'rwlock',
      name: this.name,
      acquire: (place, call) =>
        gateways.call('POST /v1/rwlocks/{name}/acquire', { path, body: { ...place, ...more } }, call),
      release: (body, call) => gateways.call('POST /v1/rwlocks/{name}/release', { path, body }, call),
    };
  }
}

/** The side of the writers. */
export class Writer extends Side {
  /**
   * As every `acquire`. With `downgradable` the hold can be turned into one of a reader.
   *
   * @throws PosternError `lock-held` if it was not granted in time; the reason of `options.signal`
   */
  override acquire(options: AcquireWriteOptions = {}): Promise<WriteHold> {
    const { context, name } = this;
    const line = this.line(options);
    return grantIn(context, line, options, (lease, granted) => {
      const { requestId } = granted;
      const parts = { path: { name }, body: { mode: 'read', requestId, waitMs: 0, keepPlace: false } } as const;
      const read: Written['read'] = (call) => context.gateways.call('POST /v1/rwlocks/{name}/acquire', parts, call);
      return new WriteHold({ context, line, lease, granted, options, read });
    });
  }
}
