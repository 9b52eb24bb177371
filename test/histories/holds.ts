/**
 * What users of locks, read-write locks, semaphores and elections rely on, looked for in the history of one of them:
 *
 * - Nobody believes to hold what somebody else believes to hold. A client may believe it from when it was told of the
 *   grant until it asks to release, its lease may have ended by its own clock (its last answered heartbeat was sent
 *   `ttlMs` ago), or it is told that it is lost.
 * - Of a pool, nobody is given a member that somebody else believes to hold.
 * - A writer who becomes a reader is one from its grant to its end, beside whom nobody writes; its token stays.
 * - A member that was lost is given to nobody before its quarantine has passed.
 * - A token is higher than all tokens of holds that it excludes and that were told before it was asked for; and none is
 *   given twice.
 * - Whoever looks sees those that hold.
 * - Whoever waits is granted when nobody else can hold (`waits.ts`), and in the end somebody is.
 * - And all of it could have happened one after the other (`holds-model.ts`).
 */
import type { LeaseInput, LeaseOutput } from './client-lease.js';
import { holdsModel, leaseOf, type HoldInput, type HoldOutput } from './holds-model.js';
import type { Operation } from './linearizable.js';
import { isLeaseInput, LeaseLife } from './lives.js';
import { waitedInVain } from './waits.js';
import { complaints, type Circumstances } from './workload.js';

/** Looks at who holds. */
export interface Show {
  readonly do: 'show';
}

/** The tokens of all holders. Each has held while it was looked; whoever held all the time is among them. */
export interface Shown {
  readonly tokens: readonly number[];
}

export type LineInput = HoldInput | Show | LeaseInput;
export type LineOutput = HoldOutput | Shown | LeaseOutput;
export type LineOperation = Operation<LineInput, LineOutput>;

type HoldOperation = Operation<HoldInput, HoldOutput>;
type Acquire = HoldInput & { do: 'acquire' };

/** Who asks when all others have gone. */
export const AFTERWARDS = 'afterwards';

/** All that one `by` has asked for and was told. */
interface Hold {
  readonly by: string;
  readonly client: string;
  readonly reads: boolean;
  readonly permits: number;
  readonly asked: number;
  readonly token: number;
  readonly tokens: ReadonlySet<number>;
  readonly members: readonly string[];
  readonly told: number;
  /** Not after `told` when it may not even then be believed. */
  readonly believedUntil: number;
  /** When its client asked to share it; Infinity: it never did. */
  readonly sharedFrom: number;
  /** Its client neither asked to release it nor to end its lease. */
  readonly isLost: boolean;
}

export interface HoldRules {
  /** Permits that there are. */
  readonly limit: number;
  /** Who is first leads, and is seen to, before it knows that: it may be told that it waited in vain all the same. */
  readonly leadsUntold?: boolean;
  /** Of a pool: for so long a member that was lost is given to nobody. */
  readonly quarantineMs?: number;
}

export function holdComplaints(
  operations: readonly LineOperation[],
  { limit, leadsUntold = false, quarantineMs = 0 }: HoldRules,
  circumstances: Circumstances = {},
): string[] {
  const leases = LeaseLife.of(operations, circumstances.touchLagMs);
  const looks = operations.flatMap(({ begin, end, client, output }) =>
    output !== undefined && 'tokens' in output ? [{ begin, end, client, tokens: output.tokens }] : [],
  );
  const own = operations.filter((one): one is HoldOperation => !isLeaseInput(one.input) && one.input.do !== 'show');
  const holds = holdsOf(own, leases);
  const beliefs = holds.flatMap(asItIsHeld);
  const holders = new Map(holds.map(({ token, by }) => [token, by]));
  const seen = looks.flatMap(({ tokens, ...look }) =>
    tokens.map((token): HoldOperation => {
      const of = holders.get(token);
      return { ...look, input: { do: 'see', token, ...(of !== undefined && { of }) }, output: { done: true } };
    }),
  );
  return [
    ...tokensGivenTwice(holds),
    ...overlappingBeliefs(beliefs, limit),
    ...membersHeldTwice(holds),
    ...membersGivenEarly(holds, quarantineMs),
    ...(limit === 1 ? tokensOutOfOrder(beliefs) : []),
    ...notShown(holds, looks),
    ...(circumstances.disturbed === undefined ? [] : waitedInVain(own, leases, circumstances.disturbed, quarantineMs)),
    ...stuckInTheEnd(own),
    ...complaints(
      holdsModel(limit),
      withWhatMayHappen([...(leadsUntold ? withUntold(own, seen) : own), ...seen], leases),
    ),
  ];
}

/** A refusal while somebody was seen whom nobody knows: it may have led until it was refused. */
function withUntold(own: readonly HoldOperation[], seen: readonly HoldOperation[]): HoldOperation[] {
  const unknown = seen.filter(({ input }) => input.do === 'see' && input.of === undefined);
  return own.flatMap((one, i): HoldOperation[] => {
    const { input, output, begin, end } = one;
    if (input.do !== 'acquire' || output === undefined || !('refused' in output)) return [one];
    if (!unknown.some((look) => look.begin < end && look.end > begin)) return [one];
    // As of a lease of its own, which ends with the answer at the latest, and leads no more after that.
    const by = `${leaseOf(input.by)}, refused ${i}`;
    return [
      { ...one, input: { ...input, by }, output: undefined },
      { ...one, input: { do: 'end', by }, output: { done: true } },
    ];
  });
}

function holdsOf(operations: readonly HoldOperation[], leases: ReadonlyMap<string, LeaseLife>): Hold[] {
  const found: Hold[] = [];
  const byHold = new Map<string, HoldOperation[]>();
  for (const operation of operations) {
    const { input } = operation;
    if ('by' in input) byHold.set(input.by, [...(byHold.get(input.by) ?? []), operation]);
  }
  for (const [by, ofOne] of byHold) {
    const acquires = ofOne.filter((one): one is Operation<Acquire, HoldOutput> => one.input.do === 'acquire');
    const grants = acquires.flatMap(({ client, end, input, output }) =>
      output !== undefined && 'token' in output
        ? [{ client, input, told: end, token: output.token, members: output.members ?? [] }]
        : [],
    );
    const sharing = acquires.filter(({ input }) => input.downgrades === true).map(({ begin }) => begin);
    const [first] = grants.sort((a, b) => a.told - b.told);
    if (first === undefined) continue;
    const lease = leases.get(leaseOf(by));
    const released = Math.min(...ofOne.filter(({ input }) => input.do === 'release').map(({ begin }) => begin));
    found.push({
      by,
      client: first.client,
      reads: first.input.reads ?? false,
      permits: first.input.permits ?? 1,
      asked: Math.min(...acquires.map(({ begin }) => begin)),
      token: first.token,
      members: first.members,
      tokens: new Set(grants.map(({ token }) => token)),
      told: first.told,
      believedUntil: Math.min(released, lease?.believedFrom(first.told) ?? Infinity),
      sharedFrom: Math.min(...sharing),
      isLost: released === Infinity && lease?.isLeft === false,
    });
  }
  return found;
}

/** What is shared in the end is held alone until that is asked for, and at least as a reader's all the time. */
function asItIsHeld(hold: Hold): Hold[] {
  if (hold.sharedFrom === Infinity) return [hold];
  return [
    { ...hold, believedUntil: Math.min(hold.believedUntil, hold.sharedFrom) },
    { ...hold, reads: true },
  ];
}

function exclude(a: Hold, b: Hold): boolean {
  return !(a.reads && b.reads);
}

function tokensGivenTwice(holds: readonly Hold[]): string[] {
  const found: string[] = [];
  const holders = new Map<number, Hold>();
  for (const hold of holds) {
    if (hold.tokens.size > 1) found.push(`${hold.by} was given several tokens: ${[...hold.tokens].join(', ')}`);
    const other = holders.get(hold.token);
    if (other !== undefined) found.push(`the token ${hold.token} was given to ${other.by} and to ${hold.by}`);
    holders.set(hold.token, hold);
  }
  return found;
}

function overlappingBeliefs(holds: readonly Hold[], limit: number): string[] {
  const found: string[] = [];
  const believed = holds.filter(({ told, believedUntil }) => believedUntil > told).sort((a, b) => a.told - b.told);
  for (const hold of believed) {
    // All that are believed in when this one begins to be.
    const beside = believed.filter(
      (other) =>
        other.by !== hold.by && other.told <= hold.told && other.believedUntil > hold.told && exclude(other, hold),
    );
    if (beside.reduce((sum, { permits }) => sum + permits, hold.permits) <= limit || beside.length === 0) continue;
    found.push(
      `${hold.by} was told at ${hold.told.toFixed(1)} that it holds (${hold.token}), while others believed it of themselves: ` +
        beside
          .map(
            ({ by, token, told, believedUntil }) =>
              `${by} (${token}) from ${told.toFixed(1)} to ${believedUntil.toFixed(1)}`,
          )
          .join(', '),
    );
  }
  return found;
}

function membersHeldTwice(holds: readonly Hold[]): string[] {
  return holds.flatMap((hold) =>
    holds
      .filter(({ by, told, believedUntil }) => by !== hold.by && told <= hold.told && believedUntil > hold.told)
      .flatMap(({ by, members }) =>
        members
          .filter((member) => hold.members.includes(member))
          .map((member) => `${hold.by} was given member ${member}, which ${by} believed to hold`),
      ),
  );
}

/** A lease stands for as long as its client may believe in it, so nobody has found the loss before. */
function membersGivenEarly(holds: readonly Hold[], quarantineMs: number): string[] {
  if (quarantineMs === 0) return [];
  return holds
    .filter(({ isLost }) => isLost)
    .flatMap((lost) =>
      holds
        .filter(({ token, told }) => token > lost.token && told < lost.believedUntil + quarantineMs)
        .flatMap(({ by, members }) =>
          members
            .filter((member) => lost.members.includes(member))
            .map((member) => `${by} was given member ${member} early, which ${lost.by} had lost`),
        ),
    );
}

function tokensOutOfOrder(holds: readonly Hold[]): string[] {
  return holds.flatMap((hold) =>
    holds
      .filter((other) => other.told < hold.asked && other.token >= hold.token && exclude(other, hold))
      .map((other) => `${hold.by} was given ${hold.token} after ${other.by} had been told of ${other.token}`),
  );
}

function notShown(holds: readonly Hold[], looks: readonly (Shown & { begin: number; end: number })[]): string[] {
  return looks.flatMap(({ begin, end, tokens }) =>
    holds
      .filter(({ told, token, believedUntil }) => told < begin && believedUntil > end && !tokens.includes(token))
      .map(({ by, token }) => `${by} held (${token}) from ${begin.toFixed(1)} to ${end.toFixed(1)} and was not shown`),
  );
}

function stuckInTheEnd(operations: readonly HoldOperation[]): string[] {
  const asked = operations.filter(({ client, input }) => client === AFTERWARDS && input.do === 'acquire');
  const granted = asked.some(({ output }) => output !== undefined && 'token' in output);
  return asked.length > 0 && !granted ? ['nobody is granted any more, although all others have gone'] : [];
}

/** With the ends of leases, and with what may become of requests that their clients gave up. */
function withWhatMayHappen(
  operations: readonly HoldOperation[],
  leases: ReadonlyMap<string, LeaseLife>,
): HoldOperation[] {
  const ends = [...leases.values()].map(({ name, client, ends }): HoldOperation => ({
    client,
    ...ends,
    input: { do: 'end', by: name },
    output: ends.end === Infinity ? undefined : { done: true },
  }));
  const unclear = operations.filter(
    ({ input, output }) => input.do === 'acquire' && (output === undefined || 'kept' in output),
  );
  const asked = new Map<string, number>();
  for (const { begin, input } of unclear)
    if ('by' in input) asked.set(input.by, Math.min(begin, asked.get(input.by) ?? Infinity));
  const released = new Map<string, number>();
  for (const { begin, input, output } of operations)
    if (input.do === 'release' && output === undefined)
      released.set(input.by, Math.min(begin, released.get(input.by) ?? Infinity));
  const clearer = operations.map((operation): HoldOperation => {
    const { input, begin, end } = operation;
    if (input.do !== 'release') return operation;
    const mayHaveGone = (released.get(input.by) ?? Infinity) < begin;
    if ((asked.get(input.by) ?? Infinity) > end && !mayHaveGone) return operation;
    return { ...operation, input: { ...input, mayStand: true } };
  });
  const later = unclear.flatMap(({ client, begin, input, output }): HoldOperation[] => {
    if (input.do !== 'acquire') return [];
    const open = { client, begin, end: Infinity, output: undefined };
    const giveBack = { ...open, input: { do: 'giveBack', by: input.by } } as const;
    // Its place comes to hold when the one in front leaves.
    return output === undefined ? [giveBack] : [{ ...open, input }, giveBack];
  });
  return [...clearer, ...ends, ...later];
}
