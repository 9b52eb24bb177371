/**
 * Clients join groups under names that others want too, with leases that end now and then, leave them, and look who is
 * there.
 */
import { ClientLease, type LeaseInput, type LeaseOutput } from '../client-lease.js';
import type { Operation } from '../linearizable.js';
import { isLeaseInput, LeaseLife } from '../lives.js';
import { groupModel, type GroupInput, type GroupOutput } from '../models.js';
import { ask, complaints, expected, TTL_MS, type Workload } from '../workload.js';

const NAMES = ['x', 'y'];

export const group: Workload<GroupInput | LeaseInput, GroupOutput | LeaseOutput> = {
  kind: 'group',

  async start(history, scene, client) {
    const { replica, random, object, ttlMs = TTL_MS } = scene;
    let lease: ClientLease | undefined;
    let values = 0;
    return async () => {
      if (lease?.kept !== true) lease = await ClientLease.take(history, scene, client, ttlMs);
      const own = lease;
      const { leaseToken } = own;
      const name = object();
      const member = NAMES[Math.floor(random() * NAMES.length)] as string;
      const path = `/v1/groups/${name}`;
      const choice = random();
      if (choice < 0.02) return own.leave();
      if (choice < 0.03) return own.forsake();
      if (choice < 0.35) {
        await history.record(name, client, { do: 'look', member }, async () => {
          const reply = await ask(replica(), 'GET', path);
          if (reply === undefined) return undefined;
          const { members } = expected(reply, [200]).body as { members: { member: string; value: string }[] };
          return { value: members.find((one) => one.member === member)?.value ?? null };
        });
        return;
      }
      own.useOn(name);
      const value = `${own.name}-${(values += 1)}`;
      const input: GroupInput =
        choice < 0.75 ? { do: 'join', member, by: own.name, value } : { do: 'leave', member, by: own.name };
      await history.record(name, client, input, async () => {
        const reply =
          input.do === 'join'
            ? await ask(replica(), 'PUT', `${path}/members/${member}`, { body: { value }, leaseToken })
            : await ask(replica(), 'DELETE', `${path}/members/${member}`, { leaseToken });
        if (reply?.status === 410) own.lose();
        if (reply === undefined || reply.status === 410) return undefined;
        return expected(reply, [200, 201, 204, 409]).status === 409 ? { refused: true } : { done: true };
      });
    };
  },

  /** Each name in it is an object of its own. */
  check(operations) {
    const own = operations.filter((one): one is Operation<GroupInput, GroupOutput> => !isLeaseInput(one.input));
    const ends = [...LeaseLife.of(operations).values()].map(
      ({ name, client, ends }): Operation<GroupInput, GroupOutput> => ({
        client,
        ...ends,
        input: { do: 'end', by: name },
        output: undefined,
      }),
    );
    return NAMES.flatMap((member) =>
      complaints(groupModel, [...own.filter(({ input }) => 'member' in input && input.member === member), ...ends]),
    );
  },
};
