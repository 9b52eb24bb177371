/** An exclusive lock, granted in order of arrival. */
import { Acquirable, extras } from './acquirable.js';
import type { Schemas } from '../contract.js';
import type { AcquireOptions, Line } from './line.js';
import { observe, shown, type ObserveOptions } from '../state/observe.js';

export class Lock extends Acquirable {
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

  protected override key(): string {
    return `lock ${this.name}`;
  }

  protected override line(options: AcquireOptions): Line {
    const { gateways } = this.context;
    const path = { name: this.name };
    return {
      kind: 'lock',
      name: this.name,
      acquire: (place, call) =>
        gateways.call('POST /v1/locks/{name}/acquire', { path, body: { ...place, ...extras(options) } }, call),
      release: (body, call) => gateways.call('POST /v1/locks/{name}/release', { path, body }, call),
    };
  }
}
