/**
 * Writes that a server was given on the sessions of leases, and passes on late: it hung, their clients gave them up and
 * did something newer elsewhere, and the sessions are attached at it again when it goes on.
 */
import { LeaseSession } from '../../src/zookeeper/lease-session.js';
import type { Operation } from '../../src/zookeeper/operations.js';
import { eventually } from './eventually.js';
import type { LeaseHandle } from './http/client.js';
import { leaseBehind } from './scene.js';
import { startReplica } from './start-gateway.js';
import { freshRoot, startEnsemble } from './start-zookeeper.js';
import { attachLease, within } from './zookeeper/sessions.js';

/** Of a handshake, at least. */
const HANDSHAKE_BYTES = 40;

/** Holds back what lease sessions are about to send, until it is told to let go. */
class HeldWrites implements Disposable {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with the session, and put back
  readonly #submit = LeaseSession.prototype['submit'];
  count = 0;
  letGo: () => void = () => undefined;

  /** @param name of what is held back */
  constructor(name: 'delete' | 'multi') {
    const submit = this.#submit;
    const open = new Promise<void>((resolve) => (this.letGo = resolve));
    const hold = (): Promise<void> => {
      this.count += 1;
      return open;
    };
    LeaseSession.prototype['submit'] = async function <T>(this: LeaseSession, operation: Operation<T>, ...rest: []) {
      if (operation.name === name) await hold();
      return submit.call(this, operation, ...rest) as Promise<T>;
    };
  }

  [Symbol.dispose](): void {
    LeaseSession.prototype['submit'] = this.#submit;
  }
}

/** Three servers, and replica `b` at the one of them that is to hang; `a` is at another. */
export async function startHanging(settings: Record<string, string> = {}) {
  const ensemble = await startEnsemble({ proxied: true });
  const [hung, other] = await ensemble.followers();
  if (hung?.proxy === undefined || other === undefined) throw new Error('two of three follow');
  const { counters } = hung.proxy;
  const root = freshRoot();
  const a = await startReplica({ root, zookeeper: other.connectString, settings });
  // Without the proxy, which drops what it has of a connection that ends.
  const b = await startReplica({ root, zookeeper: `127.0.0.1:${hung.port}`, settings });

  return {
    ...{ a, b, root, other },

    /** @param send what replica b is asked for, one write each; its clients give it up when the server has it */
    async giveUp(name: 'delete' | 'multi', send: (signal: AbortSignal) => Promise<unknown>[]): Promise<void> {
      const gone = new AbortController();
      using held = new HeldWrites(name);
      const requests = send(gone.signal);
      const left = Promise.allSettled(requests);
      await eventually('all are about to be sent', () => held.count === requests.length);
      hung.pause();
      held.letGo();
      await new Promise(setImmediate); // what is submitted goes out at the end of the turn
      gone.abort();
      await left;
    },

    /** The server goes on, with the sessions of these leases. */
    async passOn(leases: readonly LeaseHandle[], timeoutMs: number): Promise<void> {
      const sent = counters.bytes.toZooKeeper;
      const attaching = leases.map(async (lease) =>
        attachLease(hung.connectString, (await leaseBehind(a, lease)).identity, { timeoutMs, deadline: within() }),
      );
      await eventually(
        'all handshakes have arrived',
        () => counters.bytes.toZooKeeper - sent >= leases.length * HANDSHAKE_BYTES,
      );
      hung.resume();
      for (const session of await Promise.all(attaching)) {
        await session.sync('/');
        session.detach();
      }
      await b.createLease({ ttlMs: timeoutMs }); // behind whatever the server still had
    },

    async [Symbol.asyncDispose]() {
      for (const started of [b, a, ensemble]) await started[Symbol.asyncDispose]();
    },
  };
}
