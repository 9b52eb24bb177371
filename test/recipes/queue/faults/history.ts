/**
 * What clients of a queue have seen, and whether a queue can have done that: every message that was pushed comes out,
 * nothing else does, acknowledged once (popped at most once), in order.
 *
 * A request with its repetitions is one operation: it begins with the first try and ends with the answer. An operation
 * whose outcome its client never learned (it died) stays open. Times are of one clock, that of the test.
 *
 * Order is judged as for a linearizable queue: when the push of `a` was over before the push of `b` began, nobody may
 * have been given `b` before the request that was given `a` had even begun. Of `a` only its first delivery counts: what
 * was claimed before and came back says so itself (`deliveries`).
 */
export interface PushRecord {
  /** The messageIds of one request, in order. */
  ids: readonly string[];
  begin: number;
  end: number;
}

export interface TakeRecord {
  consumer: string;
  begin: number;
  end: number;
  items: readonly { id: string; deliveries: number }[];
}

export interface AckRecord {
  id: string;
  consumer: string;
  end: number;
  /** `lost`: the consumer was told that the claim is not its any more; `unknown`: it was told nothing. */
  outcome: 'done' | 'lost' | 'unknown';
}

const SHOWN_MAX = 10;

export class QueueHistory {
  readonly pushes: PushRecord[] = [];
  readonly takes: TakeRecord[] = [];
  readonly acks: AckRecord[] = [];
  /** Messages that pops may have taken whose answer nobody got: each counts with its `max`. */
  popsInDoubt = 0;

  /** @param mode whether messages were claimed and acknowledged, or popped @returns what a queue cannot have done */
  violations(mode: 'claim' | 'pop'): string[] {
    const found = [
      ...this.#unexpected(),
      ...(mode === 'claim' ? this.#acknowledged() : this.#popped()),
      ...this.#overtaken(),
    ];
    return found.length <= SHOWN_MAX
      ? found
      : [...found.slice(0, SHOWN_MAX), `and ${found.length - SHOWN_MAX} more violations`];
  }

  get #pushed(): string[] {
    return this.pushes.flatMap(({ ids }) => ids);
  }

  #unexpected(): string[] {
    const pushed = new Set(this.#pushed);
    return this.takes.flatMap(({ items, consumer }) =>
      items.filter(({ id }) => !pushed.has(id)).map(({ id }) => `${consumer} got ${id}, which nobody pushed`),
    );
  }

  #acknowledged(): string[] {
    const found: string[] = [];
    const done = new Map<string, AckRecord>();
    const inDoubt = new Set<string>();
    for (const ack of this.acks) {
      if (ack.outcome === 'unknown') inDoubt.add(ack.id);
      if (ack.outcome !== 'done') continue;
      const other = done.get(ack.id);
      if (other !== undefined) found.push(`${ack.id} was acknowledged by ${other.consumer} and by ${ack.consumer}`);
      done.set(ack.id, ack);
    }
    for (const id of this.#pushed)
      if (!done.has(id) && !inDoubt.has(id)) found.push(`${id} is lost: it was pushed and never acknowledged`);
    for (const { items, begin, consumer } of this.takes)
      for (const { id } of items)
        if (begin > (done.get(id)?.end ?? Infinity)) found.push(`${consumer} got ${id} after it was acknowledged`);
    return found;
  }

  #popped(): string[] {
    const found: string[] = [];
    const by = new Map<string, string>();
    for (const { items, consumer } of this.takes) {
      for (const { id } of items) {
        const other = by.get(id);
        if (other !== undefined) found.push(`${id} was popped by ${other} and by ${consumer}`);
        by.set(id, consumer);
      }
    }
    const lost = this.#pushed.filter((id) => !by.has(id));
    if (lost.length > this.popsInDoubt)
      found.push(
        `${lost.length} are lost, and pops in doubt explain ${this.popsInDoubt}: ${lost.slice(0, 5).join(', ')}`,
      );
    return found;
  }

  #overtaken(): string[] {
    const found: string[] = [];
    const pushOf = new Map(this.pushes.flatMap((push) => push.ids.map((id, index) => [id, { push, index }] as const)));
    const before = (a: string, b: string): boolean => {
      const [first, second] = [pushOf.get(a), pushOf.get(b)];
      if (first === undefined || second === undefined) return false;
      return first.push === second.push ? first.index < second.index : first.push.end < second.push.begin;
    };
    // Within one answer: each before the next one, unless it has come back.
    const firstTake = new Map<string, TakeRecord & { deliveries: number }>();
    for (const take of this.takes) {
      const fresh = take.items.filter(({ deliveries }) => deliveries === 1);
      for (const [i, { id }] of fresh.entries()) {
        const next = fresh[i + 1];
        if (next !== undefined && before(next.id, id)) found.push(`one answer has ${id} before ${next.id}`);
      }
      for (const { id, deliveries } of take.items) {
        const known = firstTake.get(id);
        if (known === undefined || take.end < known.end) firstTake.set(id, { ...take, deliveries });
      }
    }
    // Between answers: the earliest end of a take of anything pushed later, over all that was pushed later.
    const byBegin = [...firstTake].flatMap(([id, take]) => {
      const push = pushOf.get(id);
      return push === undefined ? [] : [{ id, take, ...push }];
    });
    byBegin.sort((a, b) => a.push.begin - b.push.begin || a.index - b.index);
    const earliest: (typeof byBegin)[number][] = new Array(byBegin.length);
    for (let i = byBegin.length - 1; i >= 0; i -= 1) {
      const own = byBegin[i] as (typeof byBegin)[number];
      const rest = earliest[i + 1];
      earliest[i] = rest !== undefined && rest.take.end < own.take.end ? rest : own;
    }
    for (const [i, { id, take, push, index }] of byBegin.entries()) {
      if (take.deliveries > 1) continue;
      const overtaker = earliest[firstAfter(byBegin, push.end)];
      if (overtaker !== undefined && overtaker.take.end < take.begin)
        found.push(`${overtaker.id} was given out before ${id}, which was pushed before it`);
      const sibling = byBegin[i + 1];
      if (sibling?.push === push && sibling.index > index && sibling.take.end < take.begin)
        found.push(`${sibling.id} was given out before ${id}, which stands before it in one request`);
    }
    return found;
  }
}

/** The index of the first whose push began after `time`. */
function firstAfter(sorted: readonly { push: PushRecord }[], time: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as { push: PushRecord }).push.begin > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
