/**
 * Connections and sessions as the tests of this folder open them: short timeouts, everything recorded, closed at the
 * end of the block.
 */
import { parseConnectString } from '../../../src/zookeeper/connect-string.js';
import type { Ensemble, ZooKeeperObserver } from '../../../src/zookeeper/client.js';
import { Connection } from '../../../src/zookeeper/connection/connection.js';
import type { ConnectionListener, ConnectionOptions } from '../../../src/zookeeper/connection/options.js';
import { ControlSession, type ControlSessionOptions } from '../../../src/zookeeper/control-session.js';
import { LeaseSession, type AttachOptions } from '../../../src/zookeeper/lease-session.js';
import type { Operation } from '../../../src/zookeeper/operations.js';
import type { Requester } from '../../../src/time.js';
import type { SessionIdentity } from '../../../src/zookeeper/connection/session-identity.js';
import { ServerOrder } from '../../../src/zookeeper/connection/server-order.js';
import { ServerClock } from '../../../src/zookeeper/server-clock.js';
import { eventually } from '../eventually.js';
import { scaled, timing } from '../timing.js';

export const OPEN_ACL = [{ permission: 31, id: { scheme: 'world', id: 'anyone' } }];

/** The two ways in which a request stays without an answer. */
export const NOTHING_SENT = {
  name: 'NoReplyError',
  code: 'zookeeper-unavailable',
  maybeApplied: false,
  outcome: 'not-applied',
} as const;
export const OUTCOME_UNKNOWN = {
  name: 'NoReplyError',
  code: 'outcome-unknown',
  maybeApplied: true,
  outcome: 'unknown',
} as const;

/** A deadline on the monotonic clock. */
export function within(ms: number = timing.eventuallyMs): number {
  return performance.now() + ms;
}

export class RecordingObserver implements ZooKeeperObserver {
  readonly faults: unknown[] = [];
  readonly events: string[] = [];
  readonly requests: string[] = [];
  /** Writes in each transaction of group commit. */
  readonly commits: number[] = [];
  readonly failedCommits: string[] = [];
  watchCount = 0;
  request(operation: string): void {
    this.requests.push(operation);
  }
  committed(writes: number): void {
    this.commits.push(writes);
  }
  commitFailed(how: string): void {
    this.failedCommits.push(how);
  }
  connected(connected: boolean): void {
    this.events.push(connected ? 'connected' : 'disconnected');
  }
  unreachable(failures: readonly string[]): void {
    this.events.push(`unreachable:${failures.join()}`);
  }
  setAside(server: string, why: Error): void {
    this.events.push(`set aside:${server}: ${why.message}`);
  }
  back(server: string): void {
    this.events.push(`back:${server}`);
  }
  clockLeapt(ms: number): void {
    this.events.push(`leapt ${ms}`);
  }
  reconnected(): void {
    this.events.push('reconnected');
  }
  watchEvent(type: string): void {
    this.events.push(`watch:${type}`);
  }
  watches(count: number): void {
    this.watchCount = count;
  }
  fault(error: unknown): void {
    this.faults.push(error);
  }
  listenerFailed(error: unknown): void {
    this.faults.push(error);
  }
}

export interface TestEnsembleView extends Ensemble {
  observer: RecordingObserver;
}

export function ensembleOf(connectString: string, overrides: Partial<Ensemble> = {}): TestEnsembleView {
  const observer = new RecordingObserver();
  const where = parseConnectString(connectString);
  return {
    ...where,
    order: new ServerOrder(where.servers, observer),
    credentials: [],
    acl: OPEN_ACL,
    handshakeTimeoutMs: scaled(2_000),
    clock: new ServerClock(),
    ...overrides,
    observer,
  };
}

/** A bare connection with its life recorded as words. */
export class TestConnection extends Connection implements Disposable {
  readonly life: string[];
  readonly faults: unknown[];
  readonly notifications: { type: number; path: string; zxid: number }[];

  constructor(
    connectString: string,
    options: Partial<ConnectionOptions> = {},
    listener: Partial<ConnectionListener> = {},
  ) {
    const life: string[] = [];
    const faults: unknown[] = [];
    const notifications: { type: number; path: string; zxid: number }[] = [];
    super(
      {
        mode: 'control',
        servers: parseConnectString(connectString).servers,
        sessionTimeoutMs: 3_000,
        handshakeTimeoutMs: scaled(2_000),
        credentials: [],
        ...options,
      },
      {
        connected: () => void life.push('connected'),
        disconnected: () => void life.push('disconnected'),
        ended: (how) => void life.push(how),
        notification: (type, path, zxid) => void notifications.push({ type, path, zxid }),
        fault: (error) => void faults.push(error),
        ...listener,
      },
    );
    this.life = life;
    this.faults = faults;
    this.notifications = notifications;
  }

  static async open(
    connectString: string,
    options?: Partial<ConnectionOptions>,
    listener?: Partial<ConnectionListener>,
  ): Promise<TestConnection> {
    const connection = new TestConnection(connectString, options, listener);
    connection.connect();
    await eventually('the connection is made', () => connection.connected);
    return connection;
  }

  [Symbol.dispose](): void {
    this.detach();
  }
}

export class TestControl extends ControlSession implements AsyncDisposable {
  readonly observer: RecordingObserver;

  constructor(
    readonly view: TestEnsembleView,
    options: Partial<ControlSessionOptions> = {},
  ) {
    super(view, { sessionTimeoutMs: 4_000, maxReadBytesAtOnce: 9_437_184, ...options });
    this.observer = view.observer;
  }

  /** Started, but perhaps not connected yet. */
  static start(
    connectString: string,
    options?: Partial<ControlSessionOptions>,
    overrides?: Partial<Ensemble>,
  ): TestControl {
    const control = new TestControl(ensembleOf(connectString, overrides), options);
    control.start();
    return control;
  }

  static async open(
    connectString: string,
    options?: Partial<ControlSessionOptions>,
    overrides?: Partial<Ensemble>,
  ): Promise<TestControl> {
    const control = TestControl.start(connectString, options, overrides);
    await control.whenConnected(within());
    return control;
  }

  /** Of an operation of the test's own, with an absolute path. */
  override submit<T>(operation: Operation<T>, deadline?: number, requester?: Requester): Promise<T> {
    return super.submit(operation, deadline, requester);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** A control session whose chroot is `root`, which exists. */
export async function controlIn(
  connectString: string,
  root: string,
  options?: Partial<ControlSessionOptions>,
): Promise<TestControl> {
  const control = await TestControl.open(connectString + root, options);
  await control.ensureChroot();
  return control;
}

const LEASE_DEFAULTS = { timeoutMs: 4_000, affinity: 0 };

export function openLease(
  connectString: string,
  options: Partial<AttachOptions> = {},
  overrides: Partial<Ensemble> = {},
): Promise<LeaseSession> {
  return LeaseSession.open(ensembleOf(connectString, overrides), { ...LEASE_DEFAULTS, deadline: within(), ...options });
}

export function attachLease(
  connectString: string,
  identity: SessionIdentity,
  options: Partial<AttachOptions> = {},
  overrides: Partial<Ensemble> = {},
): Promise<LeaseSession> {
  return LeaseSession.attach(ensembleOf(connectString, overrides), identity, {
    ...LEASE_DEFAULTS,
    deadline: within(),
    ...options,
  });
}

/** What a promise is rejected with; fails when it is fulfilled. */
export async function rejection(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error(`rejected with something that is no error: ${String(error)}`);
  }
  throw new Error('it was fulfilled');
}
