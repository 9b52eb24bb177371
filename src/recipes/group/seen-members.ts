/**
 * The members of a group as they were read: of each what the ETag needs, and of the first ones all that is shown. The
 * ETag covers all members and their values, so all are read, in batches within the budget of the connection.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ByteBudget } from '../../zookeeper/byte-budget.js';
import { readOfMany } from '../../zookeeper/read-nodes.js';
import { SHOWN } from '../line/view.js';
import { describeMember, digestOfNames, etagOfMembers, sortNames, type MemberView } from '../membership/member.js';

export interface GroupView {
  /** The first 100, in the order of their names. */
  members: MemberView[];
  memberCount: number;
  etag: string;
}

interface Seen {
  czxid: number;
  version: number;
  view: MemberView | undefined;
}

/** Of a few more than are shown, as some may go. */
const VIEWS_KEPT = 2 * SHOWN;

export class SeenMembers {
  readonly #directory: string;
  readonly #budget: ByteBudget;
  #seen = new Map<string, Seen>();
  /** Sorted. */
  #names: string[] = [];

  constructor(directory: string, budget: ByteBudget) {
    this.#directory = directory;
    this.#budget = budget;
  }

  /** @param changed those that came, went or wrote since the reading before; undefined: all are read */
  async read(zk: BoundClient, changed?: readonly string[]): Promise<void> {
    if (changed === undefined) this.#seen = new Map();
    let names = changed ?? sortNames(await zk.children(this.#directory));
    do {
      await this.#learn(zk, names);
      this.#names = sortNames([...this.#seen.keys()]);
      // Those that are now among the first.
      names = this.#names.slice(0, SHOWN).filter((name) => this.#seen.get(name)?.view === undefined);
    } while (names.length > 0);
    for (const name of this.#names.slice(VIEWS_KEPT)) (this.#seen.get(name) as Seen).view = undefined;
  }

  view(): GroupView {
    const seen = this.#names.map((name) => this.#seen.get(name) as Seen);
    return {
      members: seen.slice(0, SHOWN).flatMap(({ view }) => view ?? []),
      memberCount: seen.length,
      etag: etagOfMembers(seen.map(({ czxid, version }, i) => [this.#names[i] as string, czxid, version])),
    };
  }

  /** Names the set of members alone, whatever their values. */
  membership(): string {
    return digestOfNames(this.#names);
  }

  async #learn(zk: BoundClient, names: readonly string[]): Promise<void> {
    const paths = names.map((name) => `${this.#directory}/${name}`);
    const found = await readOfMany(zk, this.#budget, paths, ({ data, stat }, i): Seen => {
      const { czxid, version } = stat;
      const view = i < VIEWS_KEPT ? describeMember(names[i] as string, { data, stat }) : undefined;
      return { czxid, version, view };
    });
    for (const [i, name] of names.entries()) {
      const seen = found[i];
      if (seen === undefined) this.#seen.delete(name);
      else this.#seen.set(name, seen);
    }
  }
}
