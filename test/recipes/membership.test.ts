/** Whose node it is, at the moment of the write. */
import { expect, test } from 'vitest';
import type { Leases } from '../../src/leases/leases.js';
import type { Lease } from '../../src/leases/lease.js';
import { Memberships, OtherOwner, OWN_DIRECTORY } from '../../src/recipes/membership.js';
import { leaseBehind, soon } from '../faults/scene.js';
import { leaseFor } from '../http/group-client.js';
import { passed } from '../support/eventually.js';
import { startPair, type Replica } from '../support/start-gateway.js';
import { timing } from '../support/timing.js';

test('a write that has read its node waits for nobody to leave in between, so it never meets another lease’s (T10, C10)', async () => {
  await using pair = await startPair();
  const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
  const [mine, others] = [await leaseBehind(pair.a, one), await leaseBehind(pair.b, two)];
  const gate = new Gate();
  const here = new Memberships({ control: pair.a.gateway.context.control, leases: gate.before(pair.a) });
  const there = new Memberships(pair.b.gateway.context);
  const path = `${pair.a.gateway.context.layout.group('default', 'team')}/w1`;
  const put = (memberships: Memberships, lease: Lease, text: string): Promise<unknown> =>
    memberships.put({
      lease,
      path,
      data: Buffer.from(text),
      isMine: () => false,
      directory: OWN_DIRECTORY,
      deadline: soon(),
    });
  await put(here, mine, 'mine');
  gate.shut();
  const writing = put(here, mine, 'mine again');
  await gate.reached;
  const leaving = here.remove(mine, path, soon());
  const joining = (async () => {
    for (;;) {
      try {
        return await put(there, others, 'the other’s');
      } catch (error) {
        if (!(error instanceof OtherOwner)) throw error;
        await passed(timing.pollMs);
      }
    }
  })();
  // Where leaving does not wait, the other one has joined by now, at the version that the write has read.
  await Promise.race([joining, passed(timing.quietMs)]);
  gate.open();
  await Promise.all([writing, leaving, joining]);
  const { data, stat } = await pair.b.gateway.context.control.getData(path);
  expect(stat.ephemeralOwner).toBe(others.sessionId);
  expect(data.toString()).toBe('the other’s');
});

test('a node of another lease is neither written nor removed, and its owner is told', async () => {
  await using pair = await startPair();
  const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
  const [mine, others] = [await leaseBehind(pair.a, one), await leaseBehind(pair.b, two)];
  const memberships = new Memberships(pair.a.gateway.context);
  const path = `${pair.a.gateway.context.layout.group('default', 'team')}/w1`;
  const request = { path, isMine: () => true, directory: OWN_DIRECTORY, deadline: soon() };
  await memberships.put({ ...request, lease: mine, data: Buffer.from('mine') });
  const refused = await memberships
    .put({ ...request, lease: others, data: Buffer.from('the other’s') })
    .catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(OtherOwner);
  expect((refused as OtherOwner).node.data.toString()).toBe('mine');
  await expect(memberships.remove(others, path, soon())).rejects.toBeInstanceOf(OtherOwner);
  expect((await pair.b.gateway.context.control.getData(path)).data.toString()).toBe('mine');
});

/** Holds back what one reading on a lease's session has answered. */
class Gate {
  open: () => void = () => undefined;
  reached: Promise<void> = Promise.resolve();
  #waiting: { opened: Promise<void>; arrive: () => void } | undefined;

  shut(): void {
    const opened = new Promise<void>((resolve) => (this.open = resolve));
    this.reached = new Promise((resolve) => (this.#waiting = { opened, arrive: resolve }));
  }

  /** The replica's leases, whose sessions pass through here. */
  before(replica: Replica): Leases {
    const { leases } = replica.gateway.context;
    const pass = async <T>(reading: Promise<T>): Promise<T> => {
      const read = await reading;
      const waiting = this.#waiting;
      this.#waiting = undefined;
      waiting?.arrive();
      await waiting?.opened;
      return read;
    };
    const sessions = intercepted(leases.sessions, {
      useRepeatedly: (lease, deadline, work) =>
        leases.sessions.useRepeatedly(lease, deadline, (session, attempt) =>
          work(intercepted(session, { getData: (path, until) => pass(session.getData(path, until)) }), attempt),
        ),
    });
    return intercepted(leases, { sessions });
  }
}

/** The object itself, with some of its members replaced. */
function intercepted<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get: (_, name) => {
      if (name in members) return members[name as keyof T];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
