/** Releases that a hung server was given, and passes on when it goes on: after the hold was answered elsewhere. */
import { expect, test } from 'vitest';
import { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import type { Operation } from '../../../../src/zookeeper/operations.js';
import { eventually } from '../../../support/eventually.js';
import { leaseBehind, Witness } from '../../../support/scene.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot, startEnsemble } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { attachLease, within } from '../../../support/zookeeper/sessions.js';

const TTL_MS = 20_000;
const LEASES = 30;
/** Of a handshake, at least. */
const HANDSHAKE_BYTES = 40;
const NUMBERS = Array.from({ length: LEASES }, (_, i) => i);

/** Holds back what lease sessions are about to delete, until it is told to let go. */
class HeldDeletions implements Disposable {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with the session, and put back
  readonly #submit = LeaseSession.prototype['submit'];
  count = 0;
  letGo: () => void = () => undefined;

  constructor() {
    const submit = this.#submit;
    const open = new Promise<void>((resolve) => (this.letGo = resolve));
    const hold = (): Promise<void> => {
      this.count += 1;
      return open;
    };
    LeaseSession.prototype['submit'] = async function <T>(this: LeaseSession, operation: Operation<T>, ...rest: []) {
      if (operation.name === 'delete') await hold();
      return submit.call(this, operation, ...rest) as Promise<T>;
    };
  }

  [Symbol.dispose](): void {
    LeaseSession.prototype['submit'] = this.#submit;
  }
}

test.each(['holdId', 'requestId'])(
  'by %s free nothing that a repeated acquire was answered since (C7)',
  { timeout: scaled(120_000) },
  async (by) => {
    await using ensemble = await startEnsemble({ proxied: true });
    const [hung, other] = await ensemble.followers();
    if (hung?.proxy === undefined || other === undefined) throw new Error('two of three follow');
    const root = freshRoot();
    await using a = await startReplica({ root, zookeeper: other.connectString });
    // Without the proxy, which drops what it has of a connection that ends.
    await using b = await startReplica({ root, zookeeper: `127.0.0.1:${hung.port}` });
    await using witness = await Witness.start(root, other.connectString);
    const holders = await Promise.all(
      NUMBERS.map(async (i) => {
        const lease = await a.createLease({ ttlMs: TTL_MS });
        return { name: `late-${i}`, lease, ...(await a.hold(`late-${i}`, lease, { requestId: 'once' })) };
      }),
    );

    const gone = new AbortController();
    using held = new HeldDeletions();
    const releases = holders.map(({ name, holdId, lease: { leaseToken } }) => {
      const body = by === 'holdId' ? { holdId } : { requestId: 'once' };
      return b.call('POST', `/v1/locks/${name}/release`, { body, leaseToken, signal: gone.signal });
    });
    const left = Promise.allSettled(releases);
    await eventually('all are about to be sent', () => held.count === LEASES);
    hung.pause();
    held.letGo();
    await new Promise(setImmediate); // what is submitted goes out at the end of the turn
    gone.abort();
    await left;

    const repeated = await Promise.all(holders.map(({ name, lease }) => a.hold(name, lease, { requestId: 'once' })));
    expect(repeated.map(({ alreadyHeld }) => alreadyHeld)).toEqual(holders.map(() => true));
    const { bytes } = hung.proxy.counters;
    const sent = bytes.toZooKeeper;
    const attaching = holders.map(async ({ lease }) =>
      attachLease(hung.connectString, (await leaseBehind(a, lease)).identity, {
        timeoutMs: TTL_MS,
        deadline: within(),
      }),
    );
    await eventually('all handshakes have arrived', () => bytes.toZooKeeper - sent >= LEASES * HANDSHAKE_BYTES);
    hung.resume();
    for (const session of await Promise.all(attaching)) {
      await session.sync('/');
      session.detach();
    }
    await b.createLease({ ttlMs: TTL_MS }); // behind whatever the server still had
    const standing = await Promise.all(holders.map(({ name }) => witness.holder(name)));
    expect(standing).toEqual(holders.map(({ fencingToken }) => fencingToken));
  },
);
