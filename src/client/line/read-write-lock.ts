/** A read-write lock: readers share it, a writer excludes everybody, in order of arrival. */
import { Acquirable, extras } from './acquirable.js';
import type { Context } from '../context.js';
import type { Schemas } from '../contract.js';
import { PosternError } from '../errors.js';
import type { AcquireOptions, Line } from './line.js';
import { shown } from '../state/observe.js';
import type { Using } from './using.js';

export class ReadWriteLock {
  /** Shared with other readers. */
  readonly read: Acquirable;
  /** Excludes everybody. */
  readonly write: Acquirable;
  readonly #context: Context;

  constructor(
    context: Context,
    using: Using,
    readonly name: string,
  ) {
    this.#context = context;
    this.read = new Side(context, using, name, 'read');
    this.write = new Side(context, using, name, 'write');
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

  protected override line(options: AcquireOptions = {}): Line {
    const { gateways } = this.context;
    const path = { name: this.name };
    const more = { ...extras(options), mode: this.#mode };
    return {
      kind: 'rwlock',
      name: this.name,
      acquire: (place, call) =>
        gateways.call('POST /v1/rwlocks/{name}/acquire', { path, body: { ...place, ...more } }, call),
      release: (body, call) => gateways.call('POST /v1/rwlocks/{name}/release', { path, body }, call),
    };
  }
}
