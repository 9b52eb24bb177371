/**
 * Somebody asks for something, hangs up before it is answered, undoes it through another replica, and is told that it
 * is undone. What was given up must not be done after that: no ghost leads, is a member, raises the barrier, or puts
 * the old value over the new one.
 */
import { passed } from '../../support/eventually.js';
import type { Client, Reply } from '../../support/http/client.js';
import { below } from '../../support/random.js';
import { now } from '../../histories/history.js';
import { Party, someReplica, type Surroundings } from './party.js';

export interface GivenUpOptions extends Surroundings {
  readonly name: string;
  readonly complain: (complaint: string) => void;
}

interface Turn {
  readonly name: string;
  readonly party: Party;
}

interface Subject {
  readonly kind: string;
  /** What is given up. */
  ask(replica: Client, turn: Turn, signal: AbortSignal): Promise<Reply>;
  /** What undoes it, or takes its place, repeated until it is answered with one of these. */
  undo(replica: Client, turn: Turn): Promise<Reply>;
  readonly undone: readonly number[];
  look(replica: Client, turn: Turn): Promise<Reply>;
  /** Whether what was seen is what was given up. */
  isBack(seen: unknown, turn: Turn): boolean;
}

const withLease = ({ party }: Turn, body?: unknown): { leaseToken: string; body?: unknown } => ({
  leaseToken: party.lease.leaseToken,
  ...(body !== undefined && { body }),
});

const SUBJECTS: readonly Subject[] = [
  {
    kind: 'election',
    ask: (replica, turn, signal) =>
      replica.call('POST', `/v1/elections/${turn.name}/campaign`, {
        ...withLease(turn, { waitMs: 500, requestId: turn.name }),
        signal,
      }),
    undo: (replica, turn) =>
      replica.call('POST', `/v1/elections/${turn.name}/resign`, withLease(turn, { requestId: turn.name })),
    undone: [204, 409],
    look: (replica, { name }) => replica.call('GET', `/v1/elections/${name}`),
    isBack: (seen) => (seen as { leader: unknown }).leader !== null,
  },
  {
    kind: 'group',
    ask: (replica, turn, signal) =>
      replica.call('PUT', `/v1/groups/${turn.name}/members/ghost`, { ...withLease(turn, { value: 'old' }), signal }),
    undo: (replica, turn) => replica.call('DELETE', `/v1/groups/${turn.name}/members/ghost`, withLease(turn)),
    undone: [204, 409],
    look: (replica, { name }) => replica.call('GET', `/v1/groups/${name}`),
    isBack: (seen) => (seen as { members: unknown[] }).members.length > 0,
  },
  {
    kind: 'barrier',
    ask: (replica, { name }, signal) => replica.call('PUT', `/v1/barriers/${name}`, { signal }),
    undo: (replica, { name }) => replica.call('DELETE', `/v1/barriers/${name}`),
    undone: [204],
    look: (replica, { name }) => replica.call('GET', `/v1/barriers/${name}`),
    isBack: (seen) => (seen as { raised: boolean }).raised,
  },
  {
    kind: 'config',
    ask: (replica, { name }, signal) => put(replica, name, 'old', signal),
    undo: (replica, { name }) => put(replica, name, 'new'),
    undone: [200, 201],
    look: (replica, { name }) => replica.call('GET', `/v1/config/${name}`),
    isBack: (seen) => seen === 'old',
  },
];

const TTL_MS = 8_000;
/** A replica answers within two seconds; what it goes on with after that is done by then, or not at all. */
const WATCHED_MS = 4_000;
/** Before it has come to the replica, while it is on its way to ZooKeeper, or while ZooKeeper does not answer. */
const GIVEN_UP_WITHIN_MS = [3, 15, 600] as const;
const LOOK_EVERY_MS = 250;
const PAUSE_MS = 300;

export class GivenUp {
  /** Turns in which it was given up before it was answered. */
  tried = 0;
  #turns = 0;

  constructor(readonly options: GivenUpOptions) {}

  async run(): Promise<void> {
    const { isOver, name, random } = this.options;
    while (!isOver()) {
      const turn = `${name}-${(this.#turns += 1)}`;
      const party = await Party.join(this.options, turn, TTL_MS);
      if (party === undefined) return;
      const subject = SUBJECTS[below(SUBJECTS.length, random)] as Subject;
      await this.#turn(subject, { name: turn, party });
      await party.leave();
      await passed(PAUSE_MS);
    }
  }

  async #turn(subject: Subject, turn: Turn): Promise<void> {
    const { complain, isOver, random } = this.options;
    const within = GIVEN_UP_WITHIN_MS[below(GIVEN_UP_WITHIN_MS.length, random)] as number;
    const askedAt = now();
    const signal = AbortSignal.timeout(1 + below(within, random));
    const reply = await subject.ask(someReplica(this.options), turn, signal).catch(() => undefined);
    const endedAt = now();
    if (reply === undefined) this.tried += 1;
    if (!(await this.#undo(subject, turn))) return;
    const undoneAt = now();
    for (const until = now() + WATCHED_MS; now() < until && !isOver(); await passed(LOOK_EVERY_MS)) {
      const seen = await subject.look(someReplica(this.options), turn).catch(() => undefined);
      if (seen?.status === 200 && subject.isBack(seen.body, turn))
        return complain(
          `${subject.kind} ${turn.name}: what was given up was done after it had been undone ` +
            `(asked at ${askedAt}, ${reply === undefined ? 'given up' : 'answered'} at ${endedAt}, undone before ${undoneAt}, seen before ${now()})`,
        );
    }
  }

  /** @returns whether that was acknowledged while the lease lived */
  async #undo(subject: Subject, turn: Turn): Promise<boolean> {
    while (!this.options.isOver()) {
      const reply = await subject.undo(someReplica(this.options), turn).catch(() => undefined);
      if (reply?.status === 410) return false;
      if (reply !== undefined && subject.undone.includes(reply.status)) return true;
      await passed(LOOK_EVERY_MS);
    }
    return false;
  }
}

function put(replica: Client, name: string, value: string, signal?: AbortSignal): Promise<Reply> {
  const headers = { 'content-type': 'text/plain' };
  return replica.call('PUT', `/v1/config/${name}`, { body: value, headers, ...(signal !== undefined && { signal }) });
}
