/**
 * Beginning and ending rounds of double barriers, whoever finds that it is time (`double-barrier.ts`). What many ask at the same moment
 * is looked at once.
 *
 * *begin*  There is no `ready`, and enough members of one size: the oldest of them are the round. One transaction checks that every one
 *          exists, raises the version of the directory, and makes `ready`. Somebody of them has gone meanwhile, or somebody else was faster:
 *          it fails as a whole, and is looked at again.
 * *end*    `ready` exists, and nobody of its round does: it is deleted, in a transaction that checks the version of the directory, read
 *          before it. Every beginning has raised that version, so what is deleted is this round's `ready` and never a later one, though
 *          it has the same path and version (C10, C30).
 *
 * Whether nobody is left is asked of one member at a time, a *witness*: while it is there, nothing else matters. Who was found gone stays gone,
 * and is not asked about again. So a round costs each replica as many reads as it has members, not the square.
 */
import { LruMap } from '../leases/lru-map.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../zookeeper/operations.js';
import { decodeMember } from './group-member.js';
import { readNodes } from './read-nodes.js';
import { decodeRound, encodeRound, encodeSize, READY, type Round } from './round.js';
import { SharedLooks } from './shared-look.js';

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
    return this.#beginnings.ask(
      `${size} ${directory}`,
      () => this.#look(directory, size, performance.now() + LOOK_MS),
      () => false,
    );
  }

  /** Up to date: whether that round is over. Ends it, if nobody else has. */
  isOver(directory: string, round: Round): Promise<boolean> {
    return this.#endings.ask(
      `${round.czxid} ${directory}`,
      () => this.#isOver(directory, round, performance.now() + LOOK_MS),
      (over) => over,
    );
  }

  /** The round that a `ready` stands for that was seen on any session; undefined when that is gone by now. */
  async read(directory: string, czxid: number, deadline: number): Promise<Round | undefined> {
    const path = `${directory}/${READY}`;
    const known = this.#known.get(directory)?.round;
    if (known?.czxid === czxid) return known;
    let node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
    if (node === undefined || node.stat.czxid < czxid) {
      // This session's server may not have seen it yet (C2).
      await this.#control.sync(path, deadline);
      node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
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

  /** Somebody of the round who is still there, as far as the control session's server knows. @returns undefined when nobody is */
  async witness(directory: string, round: Round, deadline: number): Promise<string | undefined> {
    const known = this.#known.get(directory);
    const remaining =
      (known?.round === round ? known.remaining : undefined) ?? (await this.#members(directory, round, deadline));
    if (known?.round === round) known.remaining = remaining;
    for (let count = 1; remaining.length > 0; count = Math.min(count * 4, WITNESSES_MAX)) {
      const asked = remaining.slice(-count);
      const paths = asked.map((member) => `${directory}/${member}`);
      const nodes = await readNodes(this.#control, paths, deadline);
      const gone = new Set(asked.filter((_, i) => !((nodes[i]?.stat.czxid ?? Infinity) < round.czxid)));
      for (let i = remaining.length - 1; i >= 0; i -= 1) if (gone.has(remaining[i] as string)) remaining.splice(i, 1);
      const witness = asked.findLast((member) => !gone.has(member));
      if (witness !== undefined) return witness;
    }
    return undefined;
  }

  async #members(directory: string, { members }: Round, deadline: number): Promise<string[]> {
    if (members !== undefined) return [...members.keys()];
    const listing = await unless(this.#control.getChildren(directory, deadline), 'NO_NODE');
    return (listing?.children ?? []).filter((name) => name !== READY);
  }

  async #look(directory: string, size: number, deadline: number): Promise<Round | undefined> {
    for (;;) {
      await this.#control.sync(directory, deadline);
      const found = await this.#find(directory, deadline);
      if (found === undefined) return undefined;
      const { version, numChildren, round } = found;
      if (round !== undefined) {
        if ((await this.witness(directory, round, deadline)) !== undefined) return round;
        await this.#end(directory, version, deadline);
      } else {
        if (numChildren < size) return undefined;
        const begun = await this.#begin(directory, size, version, deadline);
        if (begun !== 'again') return begun;
      }
    }
  }

  async #isOver(directory: string, { czxid }: Round, deadline: number): Promise<boolean> {
    await this.#control.sync(directory, deadline);
    const found = await this.#find(directory, deadline);
    if (found?.round === undefined || found.round.czxid !== czxid) return true;
    if ((await this.witness(directory, found.round, deadline)) !== undefined) return false;
    await this.#end(directory, found.version, deadline);
    return true;
  }

  /** The directory's version, and then the round: in this order, see *end*. @returns undefined when there is no directory */
  async #find(
    directory: string,
    deadline: number,
  ): Promise<{ version: number; numChildren: number; round: Round | undefined } | undefined> {
    for (;;) {
      const [parent, ready] = await Promise.all([
        this.#control.exists(directory, deadline),
        this.#control.exists(`${directory}/${READY}`, deadline),
      ]);
      if (parent === undefined) return undefined;
      const { version, numChildren } = parent;
      if (ready === undefined) return { version, numChildren, round: undefined };
      const round = await this.read(directory, ready.czxid, deadline);
      if (round !== undefined) return { version, numChildren, round };
    }
  }

  async #begin(
    directory: string,
    size: number,
    version: number,
    deadline: number,
  ): Promise<Round | 'again' | undefined> {
    const listing = await unless(this.#control.getChildren(directory, deadline), 'NO_NODE');
    const names = (listing?.children ?? []).filter((name) => name !== READY);
    const nodes = await readNodes(
      this.#control,
      names.map((name) => `${directory}/${name}`),
      deadline,
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
      await this.#control.multi(operations, deadline);
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'NODE_EXISTS', 'BAD_VERSION')) return 'again';
      throw error;
    }
    const node = await unless(this.#control.getData(path, deadline), 'NO_NODE');
    return node === undefined ? 'again' : this.remember(directory, node);
  }

  async #end(directory: string, version: number, deadline: number): Promise<void> {
    await unless(
      this.#control.multi(
        [
          { type: 'check', path: directory, version },
          { type: 'delete', path: `${directory}/${READY}` },
        ],
        deadline,
      ),
      'NO_NODE',
      'BAD_VERSION',
    );
  }
}
