/**
 * Begins and ends rounds of double barriers, for whichever request finds that it is time (`double-barrier.ts`).
 * Concurrent requests share one look.
 *
 * *begin*  There is no `ready`, and enough members of one size: the oldest of them are the round. One transaction
 *          checks that every one exists, raises the version of the directory, and makes `ready`. Somebody of them has
 *          gone meanwhile, or somebody else was faster: it fails as a whole, and is looked at again.
 * *end*    `ready` exists, and nobody of its round does: it is deleted, in a transaction that checks the version of the
 *          directory, read before it. Every beginning has raised that version, so what is deleted is this round's
 *          `ready` and never a later one, though it has the same path and version (C10, C30).
 *
 * Whether nobody is left is checked with one member at a time, a *witness*: while it is present, nothing else matters.
 * A member found gone stays gone, and is not checked again. So a round costs each replica as many reads as it has
 * members, not the square.
 */
import { LruMap } from '../../lru-map.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, unless } from '../../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import { decodeMember } from '../membership/member.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { decodeRound, encodeRound, encodeSize, READY, type Round } from './round.js';
import { SharedLooks } from '../observing/shared-look.js';

const LOOK_MS = 10_000;
const REMEMBERED_MAX = 10_000;
/** The first look is at one member, each later one at more, should they all be gone. */
const WITNESSES_MAX = 100;

interface Known {
  round: Round;
  /** Of the round, those who have not been found gone. Undefined until somebody asks. */
  remaining: string[] | undefined;
}

export class Rounds {
  readonly #control: ControlSession;
  /** By directory: the latest round that was read. */
  readonly #known = new LruMap<string, Known>(REMEMBERED_MAX);
  readonly #beginnings = new SharedLooks<Round | undefined>();
  readonly #endings = new SharedLooks<boolean>();

  constructor(control: ControlSession) {
    this.#control = control;
  }

  /** Up to date: ends a round that is over, begins one when there are enough. @returns the one that goes on then */
  look(directory: string, size: number): Promise<Round | undefined> {
    return this.#beginnings.ask(`${size} ${directory}`, () => this.#look(this.#zk(), directory, size));
  }

  /** Up to date: whether that round is over. Ends it, if nobody else has. */
  isOver(directory: string, round: Round): Promise<boolean> {
    return this.#endings.ask(`${round.czxid} ${directory}`, () => this.#isOver(this.#zk(), directory, round), {
      isFinal: (over) => over,
    });
  }

  /** The round that a `ready` stands for that was seen on any session; undefined when that is gone by now. */
  async read(directory: string, czxid: number, deadline: number): Promise<Round | undefined> {
    const zk = this.#control.until(deadline);
    const path = `${directory}/${READY}`;
    const known = this.#known.get(directory)?.round;
    if (known?.czxid === czxid) return known;
    let node = await zk.find(path);
    if (node === undefined || node.stat.czxid < czxid) {
      // This session's server may not have seen it yet (C2).
      node = await zk.fresh(() => zk.find(path));
    }
    return node?.stat.czxid === czxid ? this.remember(directory, node) : undefined;
  }

  /** Takes in what was read. */
  remember(directory: string, node: NodeData): Round {
    const known = this.#known.get(directory);
    if (known?.round.czxid === node.stat.czxid) return known.round;
    const round = decodeRound(node);
    if (known === undefined || known.round.czxid < round.czxid)
      this.#known.set(directory, { round, remaining: undefined });
    return round;
  }

  /**
   * Somebody of the round who is still there, as far as the control session's server knows.
   * @returns undefined when nobody is
   */
  async witness(zk: BoundClient, directory: string, round: Round): Promise<string | undefined> {
    const known = this.#known.get(directory);
    const remaining = (known?.round === round ? known.remaining : undefined) ?? (await membersOf(zk, directory, round));
    if (known?.round === round) known.remaining = remaining;
    for (let count = 1; remaining.length > 0; count = Math.min(count * 4, WITNESSES_MAX)) {
      const asked = remaining.slice(-count);
      const paths = asked.map((member) => `${directory}/${member}`);
      const nodes = await readNodes(zk, paths);
      const gone = new Set(asked.filter((_, i) => !((nodes[i]?.stat.czxid ?? Infinity) < round.czxid)));
      for (let i = remaining.length - 1; i >= 0; i -= 1) if (gone.has(remaining[i] as string)) remaining.splice(i, 1);
      const witness = asked.findLast((member) => !gone.has(member));
      if (witness !== undefined) return witness;
    }
    return undefined;
  }

  async #look(zk: BoundClient, directory: string, size: number): Promise<Round | undefined> {
    for (;;) {
      await zk.sync(directory);
      const found = await this.#find(zk, directory);
      if (found === undefined) return undefined;
      const { version, numChildren, round } = found;
      if (round !== undefined) {
        if ((await this.witness(zk, directory, round)) !== undefined) return round;
        await end(zk, directory, version);
      } else {
        if (numChildren < size) return undefined;
        const begun = await this.#begin(zk, directory, size, version);
        if (begun !== 'again') return begun;
      }
    }
  }

  async #isOver(zk: BoundClient, directory: string, { czxid }: Round): Promise<boolean> {
    // By a quorum: to a leader that was replaced before the round began there is none.
    const found = await zk.fresh(() => this.#find(zk, directory));
    if (found?.round === undefined || found.round.czxid !== czxid) return true;
    if ((await this.witness(zk, directory, found.round)) !== undefined) return false;
    await end(zk, directory, found.version);
    return true;
  }

  /**
   * The directory's version, and then the round: in this order, see *end*.
   * @returns undefined when there is no directory
   */
  async #find(
    zk: BoundClient,
    directory: string,
  ): Promise<{ version: number; numChildren: number; round: Round | undefined } | undefined> {
    for (;;) {
      const [parent, ready] = await Promise.all([zk.exists(directory), zk.exists(`${directory}/${READY}`)]);
      if (parent === undefined) return undefined;
      const { version, numChildren } = parent;
      if (ready === undefined) return { version, numChildren, round: undefined };
      const round = await this.read(directory, ready.czxid, zk.deadline);
      if (round !== undefined) return { version, numChildren, round };
    }
  }

  async #begin(
    zk: BoundClient,
    directory: string,
    size: number,
    version: number,
  ): Promise<Round | 'again' | undefined> {
    const names = await namesIn(zk, directory);
    const nodes = await readNodes(
      zk,
      names.map((name) => `${directory}/${name}`),
    );
    const members = names.flatMap((name, i) => {
      const node = nodes[i];
      if (node === undefined) return [];
      const record = decodeMember(node.data);
      // Who says another size is in no round with these. Foreign members do not say.
      return record === undefined || record.size === size
        ? [{ name, czxid: node.stat.czxid, leaseId: record?.leaseId ?? '' }]
        : [];
    });
    if (members.length < size) return undefined;
    const round = members.sort((a, b) => a.czxid - b.czxid).slice(0, size);
    const data = encodeRound(round.map(({ name, leaseId }) => [name, leaseId]));
    const path = `${directory}/${READY}`;
    const operations: MultiOperation[] = [
      ...round.map(({ name }): MultiOperation => ({ type: 'check', path: `${directory}/${name}` })),
      { type: 'setData', path: directory, data: encodeSize(size), version },
      { type: 'create', path, data },
    ];
    try {
      await zk.multi(operations);
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'NODE_EXISTS', 'BAD_VERSION')) return 'again';
      throw error;
    }
    const node = await zk.find(path);
    return node === undefined ? 'again' : this.remember(directory, node);
  }

  /** What one look asks. */
  #zk(): BoundClient {
    return this.#control.until(performance.now() + LOOK_MS);
  }
}

async function membersOf(zk: BoundClient, directory: string, { members }: Round): Promise<string[]> {
  return members === undefined ? namesIn(zk, directory) : [...members.keys()];
}

async function namesIn(zk: BoundClient, directory: string): Promise<string[]> {
  return (await zk.children(directory)).filter((name) => name !== READY);
}

async function end(zk: BoundClient, directory: string, version: number): Promise<void> {
  const ending = zk.multi([
    { type: 'check', path: directory, version },
    { type: 'delete', path: `${directory}/${READY}` },
  ]);
  await unless(ending, 'NO_NODE', 'BAD_VERSION');
}
