/**
 * Watching the members of a group, for long polls and event streams (`observers.ts`).
 *
 * One recursive watch per group and replica. An event names the member that came, went or wrote, so only that one is read: a change costs one
 * notification and one read per replica, however many members there are and however many clients look. Events that come while
 * a reading is under way are taken together. A directory that does not exist yet is watched by the same watch.
 */
import { unless } from '../zookeeper/errors.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { WatchEvent } from '../zookeeper/watch.js';
import { describeMember, digestOfNames, etagOfMembers } from './group-member.js';
import { sortNames, type GroupView } from './group-view.js';
import { SHOWN } from './line-view.js';
import { Observers, type Look, type LookResult } from './observers.js';
import { readNodes, type ReadNode } from './read-nodes.js';

export interface GroupState extends GroupView {
  /** Names the set of members alone, whatever their values. */
  membership: string;
}

const READ_MS = 10_000;

/** Of all groups of one replica. */
export class GroupObservers {
  readonly #observers: Observers<undefined, GroupState>;

  constructor(control: ControlSession) {
    this.#observers = new Observers(control, (directory, _, look) => new GroupLook(control, directory, look).run());
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the state as soon as it is known, and with every change, until the returned function is called. */
  subscribe(directory: string, subscriber: (state: GroupState) => void): () => void {
    return this.#observers.subscribe(directory, undefined, subscriber);
  }

  /** Resolves with the first state that is wanted, or undefined at the deadline or when the signal is aborted. */
  until(
    directory: string,
    wanted: (state: GroupState) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<GroupState | undefined> {
    return this.#observers.until(directory, undefined, wanted, deadline, signal);
  }
}

class GroupLook {
  readonly #control: ControlSession;
  readonly #directory: string;
  readonly #look: Look<GroupState>;
  readonly #members = new Map<string, ReadNode>();
  /** What has to be read: members by name, or everything. */
  #changed = new Set<string>();
  #everything = true;
  #wake: () => void = () => undefined;

  constructor(control: ControlSession, directory: string, look: Look<GroupState>) {
    this.#control = control;
    this.#directory = directory;
    this.#look = look;
  }

  /** Lasts as long as anybody looks, or until something fails. */
  async run(): Promise<LookResult> {
    const { deadline, signal } = this.#look;
    const { watches } = this.#control;
    const onEvent = (event: WatchEvent): void => this.#note(event);
    this.#look.keep(await watches.persistent(this.#directory, 'persistent-recursive', onEvent, deadline));
    const stop = (): void => this.#wake();
    signal.addEventListener('abort', stop, { once: true });
    while (!signal.aborted) {
      if (this.#everything || this.#changed.size > 0) await this.#read();
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return 'again'; // nobody looks any more
  }

  #note({ type, path }: WatchEvent): void {
    const slash = path.lastIndexOf('/');
    // What is missed while there is no connection is not reported: then everything is read again.
    if (type === 'reset' || !path.endsWith(this.#directory, slash)) this.#everything = true;
    else this.#changed.add(path.slice(slash + 1));
    this.#wake();
  }

  async #read(): Promise<void> {
    const deadline = performance.now() + READ_MS;
    const everything = this.#everything;
    const changed = this.#changed;
    // Whatever is noted from here on may be newer than what is read.
    this.#everything = false;
    this.#changed = new Set();
    const names = everything ? await this.#list(deadline) : [...changed];
    const nodes = await readNodes(
      this.#control,
      names.map((name) => `${this.#directory}/${name}`),
      deadline,
    );
    if (everything) this.#members.clear();
    for (const [i, name] of names.entries()) {
      const node = nodes[i];
      if (node === undefined) this.#members.delete(name);
      else this.#members.set(name, node);
    }
    this.#look.publish(this.#state());
  }

  async #list(deadline: number): Promise<string[]> {
    return (await unless(this.#control.getChildren(this.#directory, deadline), 'NO_NODE'))?.children ?? [];
  }

  #state(): GroupState {
    const names = sortNames([...this.#members.keys()]);
    const nodeOf = (name: string): ReadNode => this.#members.get(name) as ReadNode;
    return {
      members: names.slice(0, SHOWN).map((name) => describeMember(name, nodeOf(name))),
      memberCount: names.length,
      etag: etagOfMembers(names.map((name) => [name, nodeOf(name).stat.czxid, nodeOf(name).stat.version])),
      membership: digestOfNames(names),
    };
  }
}
