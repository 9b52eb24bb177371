/** Reads messages ahead, many per request, and finds out which of them are claimed. */
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { MultiReadResult } from '../../../zookeeper/operations.js';
import { claimPath, decodeClaim, recordPath, type Entry } from './entry.js';
import { decodeMessage } from '../message.js';
import type { Queue } from '../queue.js';
import { READ_AHEAD } from './message-reads.js';
import { bytesOfMessage } from './room.js';

/**
 * @param entries in order; those that are `unread` are read, from the first on, as many as are read at once
 * @param onClaimed called with each that turns out to be claimed
 */
export async function readEntries(
  queue: Queue,
  entries: readonly Entry[],
  onClaimed: (entry: Entry) => void,
  deadline: number,
): Promise<void> {
  const unread = entries.filter(({ state }) => state === 'unread').slice(0, READ_AHEAD);
  const paths = unread.map(({ path }) => path);
  const results = await queue.queues.messages.read(queue, paths, deadline);
  /** Those that have been claimed, with the number of their children. */
  const touched = new Map<Entry, number>();
  for (const [i, result] of results.entries()) {
    const entry = unread[i] as Entry;
    if (!('data' in result)) {
      entry.state = 'gone';
      continue;
    }
    const message = decodeMessage(result.data);
    if (message === undefined) {
      entry.state = 'gone'; // not ours: it stays where it is
      continue;
    }
    entry.message = message;
    entry.bytes = bytesOfMessage(result.data.length, message.header.t === undefined ? 0 : message.body.length);
    entry.enqueuedAt = message.header.e ?? result.stat.ctime;
    if (result.stat.numChildren > 0) {
      touched.set(entry, result.stat.numChildren);
      continue;
    }
    entry.claims = undefined;
    entry.state = 'ready';
  }
  if (touched.size > 0) await readClaims(queue.control, touched, onClaimed, deadline);
}

/** Of messages that were claimed once: how often, and whether they are now. */
async function readClaims(
  control: ControlSession,
  children: ReadonlyMap<Entry, number>,
  onClaimed: (entry: Entry) => void,
  deadline: number,
): Promise<void> {
  const entries = [...children.keys()];
  const { results } = await control.multiRead(
    entries.flatMap(({ path }) => [
      { type: 'getData' as const, path: recordPath(path) },
      { type: 'getData' as const, path: claimPath(path) },
    ]),
    deadline,
  );
  const unclear: Entry[] = [];
  for (const [i, entry] of entries.entries()) {
    const record = results[2 * i] as MultiReadResult;
    const claim = results[2 * i + 1] as MultiReadResult;
    const ours = Number('data' in record) + Number('data' in claim);
    if (!('data' in record) || ours < (children.get(entry) ?? 0)) {
      unclear.push(entry);
      continue;
    }
    entry.claims = record.stat.version;
    if ('data' in claim) {
      entry.until = decodeClaim(claim.data)?.until;
      entry.state = 'claimed';
      entry.claimedAt = performance.now();
      onClaimed(entry);
    } else {
      entry.state = 'ready';
    }
  }
  if (unclear.length > 0) await passOverForeign(control, unclear, deadline);
}

/**
 * Messages with children that were not found: gone since they were read, or claimed or given back a moment ago, and
 * then they are read once more. Or somebody else has put something below them: then ZooKeeper lets nobody take them,
 * and they are passed over.
 */
async function passOverForeign(control: ControlSession, entries: readonly Entry[], deadline: number): Promise<void> {
  const { results } = await control.multiRead(
    entries.map(({ path }) => ({ type: 'getChildren', path })),
    deadline,
  );
  for (const [i, entry] of entries.entries()) {
    const result = results[i] as MultiReadResult;
    const own = [recordPath(entry.path), claimPath(entry.path)];
    if ('children' in result && result.children.some((name) => !own.includes(`${entry.path}/${name}`)))
      entry.state = 'gone';
  }
}
