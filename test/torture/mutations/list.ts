/** The rules that `npm run torture:mutations` takes out of a copy of the gateway's code, one at a time. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What one mutation changes in a file below src. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export interface Mutation {
  readonly name: string;
  /** What the gateway does now. */
  readonly sentence: string;
  readonly edits: readonly Edit[];
  /** For torture/run.ts. */
  readonly faults: string;
  readonly kinds: string;
  /**
   * With few clients who do little. ZooKeeper answers the requests of a session in order, so a read behind a write
   * shows at least that write, also from a server that lags: a replica that writes all the time reads nothing that is
   * out of date.
   */
  readonly calm?: boolean;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'grant-without-checked-write',
    sentence: 'Whoever is first in line is granted without the version-checked write (C3).',
    edits: [
      {
        file: 'recipes/line/waiter.ts',
        find: `?? grant(this.#context, turn.line, turn.place, deadline)`,
        replace: `?? ('written' as const)`,
      },
    ],
    faults: 'kill-replica,stop-clients',
    kinds: 'lock',
  },
  {
    name: 'no-node-believed',
    sentence: 'NO_NODE from a server that lags is believed (C2).',
    edits: [
      {
        file: 'recipes/line/blockers.ts',
        find: `if (zxid >= this.#place.czxid) return results;`,
        replace: `return results;`,
      },
      {
        file: 'recipes/line/blockers.ts',
        find: `if (watched.value !== undefined || watched.zxid >= this.#place.czxid) {`,
        replace: `if (watched.zxid >= 0) {`,
      },
    ],
    faults: 'lag',
    kinds: 'lock',
    calm: true,
  },
  {
    name: 'release-without-owner',
    sentence: 'A release with a holdId, which is public, does not ask whose hold it is (C8).',
    edits: [
      {
        file: 'recipes/line/release.ts',
        find: `return node?.stat.czxid === czxid && node.stat.ephemeralOwner === sessionId;`,
        replace: `return node?.stat.czxid === czxid && sessionId !== 0n;`,
      },
    ],
    faults: 'takeover',
    kinds: 'lock',
  },
  {
    name: 'token-from-sequence',
    sentence: 'The fencing token is the sequence of the node, in every answer (C10).',
    edits: [
      { file: 'recipes/line/acquire.ts', find: `fencingToken: place.czxid,`, replace: `fencingToken: place.sequence,` },
      {
        file: 'recipes/line/describe.ts',
        find: `      fencingToken: stat.czxid,
      since: stat.ctime,`,
        replace: `      fencingToken: contender.sequence,
      since: stat.ctime,`,
      },
      {
        file: 'recipes/line/describe.ts',
        find: `    fencingToken: stat.czxid,
    since: record.state`,
        replace: `    fencingToken: contender.sequence,
    since: record.state`,
      },
    ],
    faults: 'containers',
    kinds: 'lock',
  },
  {
    name: 'watch-lost-on-reconnect',
    sentence: 'Watches are not set again after a reconnect (T3, T4).',
    edits: [
      {
        file: 'zookeeper/watch.ts',
        find: `return batches.map(({ paths }) => setWatches(paths, lastZxid));`,
        replace: `return batches.slice(batches.length).map(({ paths }) => setWatches(paths, lastZxid));`,
      },
    ],
    faults: 'reconnect-storm,cut-frame',
    kinds: 'lock',
  },
  {
    name: 'second-create',
    sentence: 'After a lost connection a place is created again, and nobody looks for the guid (C6).',
    edits: [
      {
        file: 'recipes/line/join/join.ts',
        find: `for (let look = attempt > 0 || (onlyIfFree(request) && !free) || mayBeOutOfOrder(joining); ; look = true) {`,
        replace: `for (let look = attempt < 0 || (onlyIfFree(request) && !free && attempt === 0); ; look = true) {`,
      },
      {
        file: 'recipes/line/join/join.ts',
        find: `const own = await joining.own(listed, mine.name);`,
        replace: `const own = listed.filter(({ name }) => name === mine.name);`,
      },
    ],
    faults: 'reconnect-storm,cut-frame',
    kinds: 'lock',
  },
  {
    name: 'ack-without-claim',
    sentence: 'An acknowledgement does not check that the claim is still that of its lease (C20).',
    edits: [
      {
        file: 'recipes/queue/ack/acknowledge.ts',
        find: `{ type: 'delete', path: recordPath(path), version: claim.version },
      { type: 'delete', path },`,
        replace: `{ type: 'delete', path: recordPath(path), version: Math.min(-1, claim.version) },
      { type: 'delete', path },`,
      },
    ],
    faults: 'takeover',
    kinds: 'claims',
  },
  {
    name: 'replica-pings-leases',
    sentence: 'A replica keeps the leases alive that it has connections for (C5).',
    edits: [
      {
        file: 'zookeeper/lease-session.ts',
        find: `const lease = new LeaseSession(ensemble, connection, session === undefined);`,
        replace: `const lease = new LeaseSession(ensemble, connection, session === undefined);
          const pinged = lease;
          setInterval(() => void pinged.sync('/').catch(() => undefined), options.timeoutMs / 3).unref();`,
      },
    ],
    faults: 'stop-clients',
    kinds: 'lock',
  },
  {
    name: 'message-read-behind',
    sentence: 'The messages behind a cursor are read as the server at hand knows them (C61).',
    edits: [
      {
        file: 'recipes/group/messages/read.ts',
        find: `isFresh ? await zk.fresh(() => readLog(zk, ref)) : await readLog(zk, ref);`,
        replace: `await readLog(zk, ref);
    isFresh = true;`,
      },
    ],
    faults: 'lag',
    kinds: 'messages',
    calm: true,
  },
  {
    name: 'message-sent-again',
    sentence: 'A message whose transaction was not answered is not looked for under its number (C60).',
    edits: [
      {
        file: 'recipes/group/messages/post.ts',
        find: `if (await this.#isMine(lost)) return`,
        replace: `if ((await this.#isMine(lost)) && lost < 0) return`,
      },
    ],
    faults: 'cut-frame,reconnect-storm',
    kinds: 'messages',
  },
  {
    name: 'two-attempts-at-once',
    sentence: 'A start is written whatever has been written since it read (C48).',
    edits: [
      {
        file: 'recipes/run/runs.ts',
        find: `version: found?.version ?? 0,`,
        replace: `version: found === undefined ? 0 : -1,`,
      },
    ],
    faults: 'delay,takeover',
    kinds: 'run',
  },
  {
    name: 'attempt-over-while-its-lease-lives',
    sentence: 'A start takes an attempt for lost although its lease lives (C48).',
    edits: [
      {
        file: 'recipes/run/decide.ts',
        find: `const state = stateOf(before, living.has(before.leaseId));`,
        replace: `const state = stateOf(before, living.has(before.guid));`,
      },
    ],
    faults: 'takeover',
    kinds: 'run',
  },
  {
    name: 'freed-by-its-timer',
    sentence: 'A reservation is freed when a timer of a replica says so, whatever its record says by then (C57).',
    edits: [
      {
        file: 'recipes/reservation/free.ts',
        find: `if (wait > 0) return wait;`,
        replace: `if (wait === Infinity) return wait;`,
      },
    ],
    faults: 'lag,delay',
    kinds: 'reservation',
  },
  {
    name: 'one-member-twice',
    sentence: 'The node of a held member is named after its hold as well, so that two of one member can exist (C63).',
    edits: [
      {
        file: 'recipes/pool/assign.ts',
        find: `{ type: 'create', path, data: encodeHold(hold), mode: 'ephemeral' },`,
        replace: `{ type: 'create', path: path + ':' + hold.fencingToken, data: encodeHold(hold), mode: 'ephemeral' },`,
      },
    ],
    faults: 'kill-replica',
    kinds: 'pool',
  },
  {
    name: 'lost-member-given-at-once',
    sentence: 'A member that was lost is given out as one that was released, without its quarantine (C64).',
    edits: [
      {
        file: 'recipes/pool/assign.ts',
        find: `() => quarantineMs > 0);`,
        replace: `() => quarantineMs < 0);`,
      },
    ],
    faults: 'kill-replica',
    kinds: 'resting-pool',
  },
  {
    name: 'group-order-broken',
    sentence: 'The first message of a group that is not claimed is taken, whatever is claimed before it (C93).',
    edits: [
      {
        file: 'recipes/queue/claim/group-turns.ts',
        find: `if (entry.state !== 'gone') {`,
        replace: `if (entry.state === 'unread' || entry.state === 'ready') {`,
      },
    ],
    faults: 'kill-replica',
    kinds: 'grouped',
  },
  {
    name: 'downgrade-in-two-steps',
    sentence: "A downgrade takes the writer's place away, and grants the reader's later (T15).",
    edits: [
      {
        file: 'recipes/line/join/downgrade.ts',
        find: `data: encodeRecord(record), version: prepared.stat.version },`,
        replace: `data: encodeRecord(withState(record, 'waiting', { waitUntil: 0 })), version: prepared.stat.version },`,
      },
    ],
    faults: 'takeover',
    kinds: 'downgrade',
  },
  {
    name: 'expired-given-out',
    sentence: 'A message that has expired is given out for as long as it is there (C90).',
    edits: [
      {
        file: 'recipes/queue/claim/segment-view.ts',
        find: `entry.state !== 'unread') || isExpired(entry, now)) continue;`,
        replace: `entry.state !== 'unread') || isExpired(entry, -now)) continue;`,
      },
      {
        file: 'recipes/queue/claim/dispatcher.ts',
        find: `messages.some((entry) => isExpired(entry, now))`,
        replace: `messages.some((entry) => isExpired(entry, -now))`,
      },
    ],
    faults: 'kill-replica',
    kinds: 'expiring',
  },
  {
    name: 'pushed-then-noted',
    sentence: 'An occurrence is pushed in one transaction, and noted as settled in the next one (C49).',
    edits: [
      {
        file: 'recipes/schedule/firing.ts',
        find: `guards: [turn, settle(path, next, stat)],`,
        replace: `guards: [turn, settle(path, next, stat)].slice(0, 1),`,
      },
      {
        file: 'recipes/schedule/firing.ts',
        find: `occurrence: step.occurrence }, deadline);
    } catch`,
        replace: `occurrence: step.occurrence }, deadline);
      await this.#context.control.until(deadline).multi([settle(ref.path, step.next, found.stat)]);
    } catch`,
      },
    ],
    faults: 'cut-frame,reconnect-storm,kill-replica',
    kinds: 'schedule',
  },
  {
    name: 'due-by-its-own-clock',
    sentence: 'What is due follows from the clock of the replica that fires (C51).',
    edits: [
      {
        file: 'recipes/schedule/firing.ts',
        find: `(await preciseClock(this.#context, deadline)).earliest();`,
        replace: `(await preciseClock(this.#context, deadline)) && Date.now();`,
      },
    ],
    faults: 'clock-jump',
    kinds: 'schedule',
  },
];

/**
 * The files that a mutation changes, and what they are then.
 * @param source the folder `src` of the code that is to be changed
 * @throws Error when a text that is to be replaced is not there exactly once
 */
export async function mutated(source: string, { name, edits }: Mutation): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for (const { file, find, replace } of edits) {
    const text = files.get(file) ?? (await readFile(join(source, file), 'utf8'));
    const times = text.split(find).length - 1;
    if (times !== 1) throw new Error(`${name}: in ${file} there is ${times} times, not once: ${find}`);
    files.set(
      file,
      text.replace(find, () => replace),
    );
  }
  return files;
}
