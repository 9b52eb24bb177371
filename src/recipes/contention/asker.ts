/**
 * Asks all replicas where requests wait (docs/adr/0022-contention-of-all-replicas.md).
 *
 *   question ──all registered have answered, or have gone──▶ merge
 *        └──time is up──▶ merge, and name those that did not answer
 *
 * A question is a version of one node. It is asked at most once a second, by whichever replica: who wants to ask sooner
 * takes the answers to the last one. All who ask this process meanwhile share one reading of them.
 */
import { SECOND } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { unless } from '../../zookeeper/errors.js';
import { join } from '../../zookeeper/paths.js';
import { retrying } from '../../zookeeper/retrying.js';
import { allWatched } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import type { ContentionTold } from '../waiting/contention.js';
import { decodeAnswer, type Answer } from './answer.js';

/** How long a process has to answer. */
export const ANSWERED_WITHIN_MS = SECOND;
/** How old a question may be for its answers to be taken. */
const AGAIN_MS = SECOND;
const REQUEST_MS = 5 * SECOND;
const NONE = new Uint8Array(0);

/** A process that was asked. */
interface Asked {
  /** Of its node. */
  readonly node: string;
  /** Undefined: what it last wrote cannot be read. */
  readonly wrote: Answer | undefined;
  readonly answered: boolean;
}

/** The contention of one namespace. */
export interface Gathered {
  /** By each process that answered. */
  readonly told: readonly (readonly ContentionTold[])[];
  /** How many replicas were asked. */
  readonly asked: number;
  /** The names of those of which a process did not answer in time. */
  readonly silent: readonly string[];
  /** Whether every replica answered with all of its names. */
  readonly complete: boolean;
}

export class Asker {
  readonly #context: Coordination;
  #latest: Promise<readonly Asked[]> | undefined;
  /** Until when others share it, monotonic. */
  #sharedUntil = 0;

  constructor(context: Coordination) {
    this.#context = context;
  }

  /** @throws NoReplyError when ZooKeeper does not answer this replica */
  async ask(namespace: string): Promise<Gathered> {
    return gatheredOf(await this.#shared(), namespace);
  }

  #shared(): Promise<readonly Asked[]> {
    const now = performance.now();
    if (this.#latest !== undefined && now < this.#sharedUntil) return this.#latest;
    this.#sharedUntil = Infinity;
    this.#latest = this.#gather();
    this.#latest.then(
      () => (this.#sharedUntil = now + AGAIN_MS),
      () => (this.#sharedUntil = 0),
    );
    return this.#latest;
  }

  async #gather(): Promise<readonly Asked[]> {
    const { control, layout } = this.#context;
    const zk = control.until(performance.now() + REQUEST_MS);
    const question = await retrying(zk.deadline, () => this.#question(zk));
    const until = performance.now() + ANSWERED_WITHIN_MS;
    const nodes = await retrying(zk.deadline, () => zk.children(layout.replicas));
    const all = await allWatched(nodes.map((node) => this.#answerOf(node, question, { until, deadline: zk.deadline })));
    return all.filter((one) => one !== undefined);
  }

  /** The number of a question that was asked within the last second; asks if there is none. */
  async #question(zk: BoundClient): Promise<number> {
    const { layout, zooKeeperClock } = this.#context;
    for (;;) {
      const last = await zk.exists(layout.replicas);
      if (last === undefined) {
        await zk.ensure(layout.replicas);
        continue;
      }
      const ageMs = zooKeeperClock.now() - last.mtime;
      // The clock is known up to some milliseconds, and may have been set back.
      if (last.version > 0 && Math.abs(ageMs) < AGAIN_MS) return last.version;
      // If somebody else was faster, that is the question.
      const asked = await unless(zk.set(layout.replicas, NONE, last.version), 'BAD_VERSION');
      if (asked !== undefined) return asked.version;
    }
  }

  /** @returns undefined when it is gone, and all who waited there with it */
  async #answerOf(
    node: string,
    question: number,
    { until, deadline }: { until: number; deadline: number },
  ): Promise<Asked | undefined> {
    const { control, layout } = this.#context;
    const path = join(layout.replicas, node);
    for (;;) {
      let wake = (): void => undefined;
      const woken = new Promise<void>((resolve) => (wake = resolve));
      const { value, watch } = await control.watches.getData(path, wake, deadline);
      if (value === undefined) return undefined;
      const wrote = decodeAnswer(value.data);
      const answered = wrote !== undefined && wrote.question >= question;
      const leftMs = until - performance.now();
      if (answered || leftMs <= 0) {
        watch?.cancel();
        return { node, wrote, answered };
      }
      const late = setTimeout(wake, leftMs);
      await woken;
      clearTimeout(late);
      watch?.cancel();
    }
  }
}

function gatheredOf(all: readonly Asked[], namespace: string): Gathered {
  const processes = new Map<string, Asked>();
  // A process whose session was replaced may for some seconds have the node of the old one as well.
  for (const one of all) {
    const process = one.wrote?.process ?? one.node;
    if (processes.get(process)?.answered !== true) processes.set(process, one);
  }
  const replicas = new Map<string, { name: string; answered: boolean }>();
  for (const { node, wrote, answered } of processes.values()) {
    const key = wrote === undefined ? node : JSON.stringify([wrote.replica, wrote.group]);
    const answeredBefore = replicas.get(key)?.answered ?? true;
    replicas.set(key, { name: wrote?.replica ?? node, answered: answered && answeredBefore });
  }
  const answers = [...processes.values()].flatMap(({ wrote, answered }) => (answered && wrote ? [wrote] : []));
  const of = answers.map((answer) => {
    const found = answer.namespaces.find((one) => one.namespace === namespace);
    return found ?? { told: [], complete: answer.complete };
  });
  const silent = [...replicas.values()].filter(({ answered }) => !answered).map(({ name }) => name);
  return {
    told: of.map(({ told }) => told),
    asked: replicas.size,
    silent: silent.sort(),
    complete: silent.length === 0 && of.every(({ complete }) => complete),
  };
}
