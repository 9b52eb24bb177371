/**
 * Clients take part in transactions, as whoever is missing still: they vote, mostly to commit, with leases that end now
 * and then, abort one now and then, and look how it was decided. Each object is one transaction of three for a few
 * seconds, and then the next one.
 */
import { ClientLease } from '../client-lease.js';
import { NotApplied, now } from '../history.js';
import { isLeaseInput, LeaseLife } from '../lives.js';
import type { LeaseInput, LeaseOutput } from '../client-lease.js';
import type { Operation } from '../linearizable.js';
import { transactionModel, type TransactionInput, type TransactionOutput } from '../models.js';
import { ask, complaints, expected, TTL_MS, type Workload } from '../workload.js';

const PARTICIPANTS = ['red', 'green', 'blue'];
const DEADLINE_MS = 2_000;
/** All clients agree on it, as they have one clock. */
const RENEWED_MS = 1_500;

type Input = TransactionInput | LeaseInput;
type Output = TransactionOutput | LeaseOutput;

export const transaction: Workload<Input, Output> = {
  kind: 'transaction',

  async start(history, scene, client) {
    const { replica, random, object, ttlMs = TTL_MS } = scene;
    const ids = new Map<string, string>();
    let lease: ClientLease | undefined;

    async function idOf(name: string): Promise<string> {
      const known = ids.get(name);
      if (known !== undefined) return known;
      const body = { participants: PARTICIPANTS, deadlineMs: DEADLINE_MS, requestId: name };
      const reply = await ask(replica(), 'POST', '/v1/transactions', { body });
      if (reply === undefined) throw new NotApplied(); // whoever repeats it gets the same one
      const { transactionId } = expected(reply, [201]).body as { transactionId: string };
      ids.set(name, transactionId);
      return transactionId;
    }

    return async () => {
      if (lease?.kept !== true) lease = await ClientLease.take(history, scene, client, ttlMs);
      const { leaseToken } = lease;
      const name = `${object()}-${Math.floor(now() / RENEWED_MS)}`;
      const path = `/v1/transactions/${await idOf(name)}`;
      const choice = random();
      if (choice < 0.02) return lease.leave();
      if (choice < 0.35) {
        await history.record(name, client, { do: 'look' }, async () => {
          const reply = await ask(replica(), 'GET', `${path}?waitMs=${choice < 0.1 ? 500 : 0}`);
          return reply && stateOf(expected(reply, [200]).body);
        });
      } else if (choice < 0.38) {
        await history.record(name, client, { do: 'abort' }, async () => {
          const reply = await ask(replica(), 'POST', `${path}/abort`, { body: {} });
          return reply && stateOf(expected(reply, [200]).body);
        });
      } else {
        const own = lease;
        const participant = PARTICIPANTS[Math.floor(random() * PARTICIPANTS.length)] as string;
        const vote = random() < 0.97 ? 'commit' : 'abort';
        own.useOn(name);
        await history.record(name, client, { do: 'vote', participant, vote, by: own.name }, async () => {
          const reply = await ask(replica(), 'POST', `${path}/vote`, { body: { participant, vote }, leaseToken });
          if (reply?.status === 410) own.lose();
          if (reply === undefined || reply.status === 410) return undefined;
          return expected(reply, [200, 409]).status === 409 ? { refused: true } : stateOf(reply.body);
        });
      }
    };
  },

  check(operations) {
    const own = operations.filter(
      (one): one is Operation<TransactionInput, TransactionOutput> => !isLeaseInput(one.input),
    );
    const ends = [...LeaseLife.of(operations).values()].map(
      ({ name, client, ends }): Operation<TransactionInput, TransactionOutput> => ({
        client,
        ...ends,
        input: { do: 'end', by: name },
        output: undefined,
      }),
    );
    return complaints(transactionModel(PARTICIPANTS.length), [
      ...own.flatMap((one) => votedAndLooked(one, own)),
      ...ends,
    ]);
  },
};

/**
 * Who votes is told how the transaction stands after that; of two who vote at the same time both may be told that it is
 * committed, though it was so only when the second vote was there. Such a vote is two operations: the vote, and a look.
 */
function votedAndLooked(
  one: Operation<TransactionInput, TransactionOutput>,
  all: readonly (typeof one)[],
): (typeof one)[] {
  const { input, output, begin, end } = one;
  if (input.do !== 'vote' || output === undefined || !('state' in output) || output.state !== 'committed') return [one];
  const beside = all.some(
    (other) => other !== one && other.input.do === 'vote' && other.begin < end && other.end > begin,
  );
  return beside
    ? [
        { ...one, output: undefined },
        { ...one, input: { do: 'look' } },
      ]
    : [one];
}

function stateOf(body: unknown): TransactionOutput {
  return { state: (body as { state: 'open' | 'committed' | 'aborted' }).state };
}
