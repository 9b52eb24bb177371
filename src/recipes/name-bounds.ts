/**
 * Bounds how many names of one kind a namespace has, and how many namespaces there are: callers can make up new names
 * forever, and each is a znode in a directory that somebody lists. The members of one group, and those of one double
 * barrier, are bounded like the names of one kind.
 *
 * Guarantee: a name is refused only if the bound was really counted. Existing names can be used, whatever the bound.
 * Not guaranteed: exactness. A replica learns of the names that others made when it counts, every ten seconds while it
 * makes names itself, so each may exceed the bound by the names that it makes in that time.
 *
 * A directory is counted by its node's Stat: at most one read every ten seconds, by requests that make a name; nobody
 * else pays.
 */
import type { Config } from '../config.js';
import { PosternError } from '../errors.js';
import type { Layout } from '../leases/layout.js';
import { LruMap } from '../lru-map.js';
import { SECOND } from '../time.js';
import type { Ensemble } from '../zookeeper/client.js';
import { byDeadline } from '../zookeeper/by-deadline.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { baseName, parentOf } from '../zookeeper/paths.js';
import { retrying } from '../zookeeper/retrying.js';

const REQUEST_MS = 10 * SECOND;
const COUNT_EVERY_MS = 10 * SECOND;
/** Whoever is refused may have made room: counted again, but not by each who comes. */
const COUNT_FULL_EVERY_MS = SECOND;
/** A namespace has some ten directories, and one for each group and double barrier that is joined lately. */
const REMEMBERED_MAX = 10_000;

/** The member of a problem that tells the bound. */
type Limit = 'maxNames' | 'maxNamespaces' | 'maxSchedules' | 'maxPools';

interface Count {
  readonly names: number;
  /** That were admitted since; some of them may have been tried twice, or not have been made after all. */
  admitted: number;
  /** Monotonic. */
  readonly at: number;
}

/** Whatever is the first of a namespace makes that as well, as what is missing above it. */
export function boundNames(
  control: ControlSession,
  ensemble: Ensemble,
  { namespaces }: Layout,
  { maxNames, maxNamespaces }: Pick<Config, 'maxNames' | 'maxNamespaces'>,
): NameBounds {
  const bound = new NameBounds(control, maxNamespaces, 'maxNamespaces');
  const admitNamespace = async (path: string, deadline = performance.now() + REQUEST_MS): Promise<void> => {
    if (parentOf(path) === namespaces) await bound.admit(namespaces, deadline);
  };
  ensemble.admitsMissing = admitNamespace;
  return Object.assign(new NameBounds(control, maxNames), { admitNamespace });
}

export class NameBounds {
  readonly #control: ControlSession;
  readonly #max: number;
  readonly #limit: Limit;
  /** To be asked before a node is made that may be a namespace. @throws as `admit` */
  admitNamespace: (path: string, deadline?: number) => Promise<void> = () => Promise.resolve();
  readonly #counts = new LruMap<string, Promise<Count>>(REMEMBERED_MAX);

  /** @param max names in one directory; 0: any number */
  constructor(control: ControlSession, max: number, limit: Limit = 'maxNames') {
    this.#control = control;
    this.#limit = limit;
    this.#max = max;
  }

  /**
   * To be asked before a name is made in this directory.
   * @throws PosternError `too-many-names`; as a read when it cannot be counted. Nothing was done.
   */
  async admit(directory: string, deadline: number): Promise<void> {
    if (this.#max === 0) return;
    // Who has more time than others share it with counts again, and who has less does not wait for them.
    const counted = (maxAgeMs: number): Promise<Count> =>
      retrying(deadline, () => byDeadline(this.#count(directory, maxAgeMs), deadline, 'the count of names'));
    let count = await counted(COUNT_EVERY_MS);
    if (count.names + count.admitted >= this.#max) count = await counted(count.admitted > 0 ? 0 : COUNT_FULL_EVERY_MS);
    if (count.names >= this.#max) throw this.#tooMany(directory, count.names);
    count.admitted += 1;
  }

  async #count(directory: string, maxAgeMs: number): Promise<Count> {
    const known = this.#counts.get(directory);
    if (known !== undefined) {
      const count = await known.catch(() => undefined);
      if (count !== undefined && performance.now() - count.at < maxAgeMs) return count;
    }
    // Whoever waited for the same reading shares the next one too.
    const newest = this.#counts.get(directory);
    if (newest !== undefined && newest !== known) return newest;
    const counting = this.#read(directory);
    this.#counts.set(directory, counting);
    counting.catch(() => this.#counts.delete(directory));
    return counting;
  }

  async #read(directory: string): Promise<Count> {
    const at = performance.now();
    const stat = await this.#control.exists(directory, at + REQUEST_MS);
    return { names: stat?.numChildren ?? 0, admitted: 0, at };
  }

  #tooMany(directory: string, names: number): PosternError {
    const max = this.#max;
    const there = {
      maxNames: `${names} names under ${baseName(directory)} in this namespace`,
      maxNamespaces: `${names} namespaces`,
      maxSchedules: `${names} schedules in this namespace`,
      maxPools: `${names} pools in this namespace`,
    }[this.#limit];
    return new PosternError(
      'too-many-names',
      `There are ${there} already, and there may be ${max}. Nothing was done.`,
      {
        members: { limit: this.#limit, [this.#limit]: max, names },
      },
    );
  }
}
