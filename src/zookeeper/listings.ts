/**
 * Listings of directories with very many names, from which somebody wants a page. ZooKeeper only lists them whole: a
 * hundred thousand long names are 20 MB, and as many listings at once as there are requests would fill the replica's
 * memory and hold up everything else on its connection. So large ones take turns within the connection's budget, and
 * whoever asks while one waits for its turn shares it. It begins after all of them have asked, so it is as new as what
 * each could have read itself, behind a `sync` of its own for example.
 *
 *   ask ─▶ how many are there? ──few──▶ list
 *                             └──many──▶ one waits for its turn: share it; none: wait for a turn ─▶ list ─▶ all told
 */
import { NameList } from '../page.js';
import { byDeadline } from './by-deadline.js';
import type { ByteBudget } from './byte-budget.js';
import type { Stat } from './operations.js';

/** The longest that recipes make have somewhat more; most have far less. */
const NAME_BYTES = 200;
/** Smaller ones are not counted, as other small answers are not. */
const SMALL_BYTES = 64 * 1024;

/** What is asked of the connection; both have an answer where there is no such node. */
export interface Directories {
  stat: (path: string, deadline: number) => Promise<Stat | undefined>;
  names: (path: string, deadline: number) => Promise<NameList>;
}

interface Waiting {
  names: Promise<NameList>;
  /** It is that of the first who asked. */
  until: number;
}

export class Listings {
  readonly #directories: Directories;
  readonly #budget: ByteBudget;
  /** By path: those that have not begun. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(directories: Directories, budget: ByteBudget) {
    this.#directories = directories;
    this.#budget = budget;
  }

  /**
   * The names in a directory; none where there is no such node.
   * @throws PosternError `overloaded` if it has no turn by the deadline; as a read
   */
  async names(path: string, deadline: number): Promise<NameList> {
    const stat = await this.#directories.stat(path, deadline);
    if (stat === undefined) return new NameList([]);
    const bytes = stat.numChildren * NAME_BYTES;
    if (bytes <= SMALL_BYTES) return this.#directories.names(path, deadline);
    for (;;) {
      const waiting = this.#waiting.get(path) ?? this.#wait(path, bytes, deadline);
      try {
        return await byDeadline(waiting.names, deadline, 'the listing');
      } catch (error) {
        const now = performance.now();
        if (waiting.until === deadline || now < waiting.until || now >= deadline) throw error;
      }
    }
  }

  #wait(path: string, bytes: number, until: number): Waiting {
    const leave = (): void => {
      if (this.#waiting.get(path) === waiting) this.#waiting.delete(path);
    };
    const names = this.#budget.spend(bytes, until, () => {
      leave(); // whoever asks from here on needs a newer one
      return this.#directories.names(path, until);
    });
    const waiting = { names, until };
    this.#waiting.set(path, waiting);
    names.catch(leave);
    return waiting;
  }
}
