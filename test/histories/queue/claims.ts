/**
 * What users of a queue rely on who claim and acknowledge, looked for in the history of one that was emptied in the
 * end:
 *
 * - What was pushed is acknowledged exactly once, nothing else is, and nobody gets a message after that; in order
 *   (`faults/history.ts`).
 * - Nobody believes to have claimed what somebody else believes so. A client may believe it from when it was told until
 *   it asks to acknowledge the message or to give it back, or its lease may have ended by its own clock.
 * - An acknowledgement counts only while its claim does: not after another one was told of a claim of the same message.
 *
 * Of a queue with groups each group is one such queue, and more: nobody is told of a claim of a message before somebody
 * began to acknowledge what was pushed to its group before.
 */
import { QueueHistory } from '../../recipes/queue/faults/history.js';
import type { LeaseInput, LeaseOutput } from '../client-lease.js';
import type { Operation } from '../linearizable.js';
import { LeaseLife } from '../lives.js';
import type { Circumstances } from '../workload.js';

export interface Claimed {
  readonly id: string;
  readonly claimId: string;
  readonly deliveries: number;
}

export interface ShownMessage {
  readonly id: string;
  readonly state: string;
}

export type ClaimInput =
  /** With its repetitions. */
  | { readonly do: 'push'; readonly ids: readonly string[]; readonly expiresInMs?: number }
  | { readonly do: 'claim'; readonly lease: string }
  | { readonly do: 'ack' | 'nack'; readonly lease: string; readonly id: string; readonly claimId: string }
  /** Looks at all messages. */
  | { readonly do: 'peek' }
  | LeaseInput;

export type ClaimOutput =
  | { readonly pushed: true }
  | { readonly items: readonly Claimed[] }
  | { readonly shown: readonly ShownMessage[] }
  /** `again`: it had been done before. */
  | { readonly result: 'done' | 'again' | 'lost' }
  | LeaseOutput;

export type ClaimOperation = Operation<ClaimInput, ClaimOutput>;

interface Belief extends Claimed {
  readonly lease: string;
  readonly told: number;
  readonly until: number;
}

/** @param mayGo messages that nobody has to acknowledge */
export function claimComplaints(
  operations: readonly ClaimOperation[],
  circumstances: Circumstances = {},
  mayGo: ReadonlySet<string> = new Set(),
): string[] {
  const leases = LeaseLife.of(operations, circumstances.touchLagMs);
  const beliefs = beliefsOf(operations, leases);
  return [...accounts(operations, mayGo), ...overlaps(beliefs), ...acknowledgedByOthers(operations, beliefs)];
}

/** @param operations whose ids say their groups (`groupOf`) */
export function groupedComplaints(operations: readonly ClaimOperation[], circumstances: Circumstances = {}): string[] {
  const groups = new Set(operations.flatMap(({ input }) => (input.do === 'push' ? input.ids.map(groupOf) : [])));
  return [...groups].flatMap((group) => {
    const own = operations.flatMap((operation) => ofGroup(operation, group));
    return [...claimComplaints(own, circumstances), ...outOfTurn(own)];
  });
}

/** Of a message of a queue with groups, as its id says. */
export function groupOf(id: string): string {
  return id.slice(0, id.indexOf(':'));
}

function ofGroup(operation: ClaimOperation, group: string): ClaimOperation[] {
  const { input, output } = operation;
  const isOwn = (id: string): boolean => groupOf(id) === group;
  if (input.do === 'push') {
    const ids = input.ids.filter(isOwn);
    return ids.length === 0 ? [] : [{ ...operation, input: { ...input, ids } }];
  }
  if (input.do === 'ack' || input.do === 'nack') return isOwn(input.id) ? [operation] : [];
  if (output === undefined || !('items' in output)) return [operation];
  return [{ ...operation, output: { items: output.items.filter(({ id }) => isOwn(id)) } }];
}

function outOfTurn(operations: readonly ClaimOperation[]): string[] {
  const pushes: { id: string; begin: number; end: number; index: number }[] = [];
  const acknowledged = new Map<string, number>();
  const told = new Map<string, number>();
  const earlier = (times: Map<string, number>, id: string, time: number): void =>
    void times.set(id, Math.min(time, times.get(id) ?? Infinity));
  for (const { input, output, begin, end } of operations) {
    if (input.do === 'push') pushes.push(...input.ids.map((id, index) => ({ id, begin, end, index })));
    const isLost = output !== undefined && 'result' in output && output.result === 'lost';
    if (input.do === 'ack' && !isLost) earlier(acknowledged, input.id, begin);
    if (output !== undefined && 'items' in output) for (const { id } of output.items) earlier(told, id, end);
  }
  return pushes.flatMap((later) =>
    pushes
      .filter(
        ({ begin, end, index }) =>
          end < later.begin || (begin === later.begin && index < later.index && end === later.end),
      )
      .filter(({ id }) => (told.get(later.id) ?? Infinity) < (acknowledged.get(id) ?? Infinity))
      .map(
        ({ id }) =>
          `order of a group broken: ${later.id} was claimed before ${id} was acknowledged, which was pushed before it`,
      ),
  );
}

/** As `faults/history.ts` keeps them. */
function accounts(operations: readonly ClaimOperation[], mayGo: ReadonlySet<string>): string[] {
  const history = new QueueHistory();
  const done = new Set<string>();
  for (const { begin, end, input, output } of [...operations].sort((a, b) => a.end - b.end)) {
    if (input.do === 'push') history.pushes.push({ ids: input.ids, begin, end });
    if (input.do === 'claim' && output !== undefined && 'items' in output && output.items.length > 0)
      history.takes.push({ consumer: input.lease, begin, end, items: output.items });
    if (input.do !== 'ack') continue;
    const result = output !== undefined && 'result' in output ? output.result : 'unknown';
    // What a repetition finds was done by it, by an earlier one whose answer was lost: once.
    const first = result === 'done' || (result === 'again' && !done.has(input.claimId));
    if (first) done.add(input.claimId);
    const outcome = first ? 'done' : result === 'again' ? undefined : result === 'lost' ? 'lost' : 'unknown';
    if (outcome !== undefined) history.acks.push({ id: input.id, consumer: input.lease, end, outcome });
  }
  // What nobody knows to have been pushed is there if somebody got it.
  const taken = new Set(history.takes.flatMap(({ items }) => items.map(({ id }) => id)));
  for (const push of history.pushes) if (push.end === Infinity) push.ids = push.ids.filter((id) => taken.has(id));
  for (const id of mayGo) history.acks.push({ id, consumer: 'nobody', end: Infinity, outcome: 'unknown' });
  return history.violations('claim');
}

function beliefsOf(operations: readonly ClaimOperation[], leases: ReadonlyMap<string, LeaseLife>): Belief[] {
  const given = new Map<string, number>();
  for (const { input, begin } of operations)
    if (input.do === 'ack' || input.do === 'nack')
      given.set(input.claimId, Math.min(begin, given.get(input.claimId) ?? Infinity));
  const beliefs = new Map<string, Belief>();
  for (const { input, output, end } of operations) {
    if (input.do !== 'claim' || output === undefined || !('items' in output)) continue;
    for (const item of output.items) {
      const told = Math.min(end, beliefs.get(item.claimId)?.told ?? Infinity);
      const lived = leases.get(input.lease)?.believedFrom(told) ?? Infinity;
      const until = Math.min(given.get(item.claimId) ?? Infinity, lived);
      beliefs.set(item.claimId, { ...item, lease: input.lease, told, until });
    }
  }
  return [...beliefs.values()].sort((a, b) => a.told - b.told);
}

function overlaps(beliefs: readonly Belief[]): string[] {
  const found: string[] = [];
  const last = new Map<string, Belief>();
  for (const belief of beliefs) {
    const before = last.get(belief.id);
    if (before !== undefined && before.until > belief.told && belief.until > belief.told)
      found.push(
        `${belief.lease} was told at ${belief.told.toFixed(1)} that it has claimed ${belief.id}, while ${before.lease} believed so ` +
          `from ${before.told.toFixed(1)} to ${before.until.toFixed(1)}`,
      );
    if (before === undefined || belief.until > before.until) last.set(belief.id, belief);
  }
  return found;
}

function acknowledgedByOthers(operations: readonly ClaimOperation[], beliefs: readonly Belief[]): string[] {
  return operations.flatMap(({ input, output, begin }) => {
    if (input.do !== 'ack' || output === undefined || !('result' in output) || output.result !== 'done') return [];
    const own = beliefs.find(({ claimId }) => claimId === input.claimId);
    const later = beliefs.find(
      (other) =>
        other.id === input.id && other.claimId !== input.claimId && other.told < begin && other.told > (own?.told ?? 0),
    );
    if (own === undefined || later === undefined || later.deliveries <= own.deliveries) return [];
    return [
      `${input.lease} acknowledged ${input.id} by a claim that was not the last: ${later.lease} had claimed it since`,
    ];
  });
}
