/**
 * Preference: a candidate that is preferred more than others passes them when it comes, so that it leads before them.
 *
 * Guarantee: among those who stand behind the leader, whoever is preferred more stands before whoever is preferred
 *   less, in order of arrival where they are equal; so the next to lead is the first of them, as ever. The leader is
 *   never passed. A candidate makes way {@link PASSED_MAX} times at most; from then on nobody passes it. A campaign
 *   passes {@link LOOKED_AT} others at most.
 * Not guaranteed: that a candidate that was passed keeps the order of its arrival, nor that it stands again at once: it
 *   does when its campaign learns of it, at the latest after a third of its lease's ttl, or when whoever stood before
 *   it leaves. Until then it is not among those who stand.
 *
 * Only a campaign with a preference above 0 looks, once it has a place that is not the first, before it waits:
 *
 * 1. *Look*: those directly before it, behind a `sync`, up to the first that is preferred as much, or may not be
 *    passed. The line that this replica knows shows all who stand before the place, and maybe some who have gone.
 * 2. *Pass*, in one transaction: `check` the place itself and the node before those that are passed, and delete these
 *    at the versions that were read, each with a record for its lease (`overtaking.ts`). Whoever has somebody before it
 *    does not lead; so the check proves that no leader is deposed, by whatever path leadership moves at that moment. If
 *    it fails, somebody has left, or another attempt has written: look again.
 *
 * Where it can be cut off:
 *
 *   between the place and its passing    it stands behind all others, as without a preference; the campaign that is
 *                                        repeated adopts the place, and passes then
 *   passed, reply lost                   looked at again: they have gone, and are told; there is nobody left to pass
 *   it dies before it passes             the transaction checks its node: nobody makes way for nobody
 *   it dies after that                   those who were passed stand behind the others by then, or come back first
 *   two pass the same ones               the second transaction fails; it finds the first, passes it or stays behind it
 *   passed itself before it passes       its own node has gone: it stands again, like any that was passed
 *   the leader releases to one of them   its transaction and this one name the same node: one of them is done
 *
 * How often a candidate has made way its new place says, where its own campaign stands again, and the notice goes. The
 * campaign of one that did not wait at that moment cannot tell; but its lease has a notice of it until it ends, with
 * what its place said, and whoever wants to pass it counts these too. So neither a place's fate nor what a lease has
 * to be told grows for ever.
 *
 * Candidates of other programs are not passed: they could not be told. Nor is the one that a transfer has named as the
 * next leader. Source: Kubernetes' coordinated leader election (`preferredHolder`).
 */
import type { Requester } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason } from '../../zookeeper/errors.js';
import { retrying } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { decodeHoldId, decodeRecord, type Contender } from '../line/contender.js';
import type { Line } from '../line/line.js';
import type { Place } from '../line/place.js';
import { decodeRevocation } from '../line/revocation/record.js';
import { overtake, readStanding, type Standing } from './overtaking.js';

export interface Advancing {
  namespace: string;
  name: string;
  deadline: number;
  requester: Requester;
}

/** So often a candidate makes way. Each time a lease is told of costs its heartbeats a read. */
export const PASSED_MAX = 8;
/** So many candidates are looked at, and may be passed, by one campaign. */
export const LOOKED_AT = 32;
/** Each try that fails had somebody leave, or write, in that moment. */
const TRIES_MAX = 20;

/** @returns `lost` when the place is gone */
export async function advance(
  context: Coordination,
  request: Advancing,
  place: Place,
  line: Line,
): Promise<'written' | 'lost'> {
  const preference = place.record.candidate?.preference ?? 0;
  if (preference === 0) return 'written';
  const before = line.members.slice(0, line.indexOf(place)).slice(-LOOKED_AT - 1);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const done = await retrying(request.deadline, async () => {
      const zk = context.control.until(request.deadline);
      const standing = await zk.fresh(() => readStanding(zk, line.path, before));
      // Also those whose pass was done by a try whose reply was lost.
      const standsNow = new Set(standing.map(({ contender }) => contender));
      strike(
        line,
        before.filter((contender) => !standsNow.has(contender)),
      );
      const passing = await whoMakesWay(context, zk, standing, preference);
      return pass(context, request, { place, line, standing, passing });
    });
    if (done !== 'again') return done;
  }
  return 'written';
}

/** @returns those that are passed: the last of `standing`, and never the first, which may lead */
async function whoMakesWay(
  context: Coordination,
  zk: BoundClient,
  standing: readonly Standing[],
  preference: number,
): Promise<readonly Standing[]> {
  const isAsMuch = ({ view }: Standing): boolean => view.external || (view.preference ?? 0) >= preference;
  const less = standing.slice(Math.max(1, standing.findLastIndex(isAsMuch) + 1));
  const [leader] = standing;
  if (less.length === 0 || leader === undefined) return [];
  const [successor, stays] = await Promise.all([
    successorOf(context, zk, leader),
    Promise.all(less.map((one) => madeWayEnough(context, zk, one))),
  ]);
  const last = less.findLastIndex(({ contender }, i) => stays[i] === true || contender.name === successor);
  return less.slice(last + 1);
}

/** Whom the leader was asked to make way for. */
async function successorOf({ layout }: Coordination, zk: BoundClient, { view }: Standing): Promise<string | undefined> {
  if (view.external) return undefined;
  const node = await zk.find(layout.revocation(view.leaseId, view.holdId));
  return node === undefined ? undefined : decodeRevocation(node.data).successor?.split('/').at(-1);
}

async function madeWayEnough({ layout }: Coordination, zk: BoundClient, { node, view }: Standing): Promise<boolean> {
  const { passed = 0 } = decodeRecord(node.data)?.candidate ?? {};
  const notices = await zk.children(layout.revocationsOf(view.leaseId));
  const ofCandidacies = notices.filter((holdId) => decodeHoldId(holdId)?.prefix === 'latch-').slice(0, PASSED_MAX);
  const nodes = await Promise.all(ofCandidacies.map((holdId) => zk.find(layout.revocation(view.leaseId, holdId))));
  const before = nodes.map((node) => 1 + ((node && decodeRevocation(node.data).passed) ?? 0));
  return before.reduce((sum, times) => sum + times, passed) >= PASSED_MAX;
}

interface Pass {
  place: Place;
  line: Line;
  standing: readonly Standing[];
  passing: readonly Standing[];
}

async function pass(
  context: Coordination,
  { namespace, name, deadline, requester }: Advancing,
  { place, line, standing, passing }: Pass,
): Promise<'written' | 'lost' | 'again'> {
  const [first] = passing;
  const before = first === undefined ? undefined : standing[standing.indexOf(first) - 1];
  if (before === undefined) return 'written';
  const zk = context.control.until(deadline);
  const removed = await overtake(context, zk, { namespace, name, preferred: true }, passing);
  try {
    await context.control
      .writingFor(requester)
      .until(deadline)
      .multi([
        { type: 'check', path: place.path },
        { type: 'check', path: `${line.path}/${before.contender.name}` },
        ...removed,
      ]);
  } catch (error) {
    if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NODE_EXISTS')) throw error;
    return isReason(error, 'NO_NODE') && error.failedIndex === 0 ? 'lost' : 'again';
  }
  strike(
    line,
    passing.map(({ contender }) => contender),
  );
  return 'written';
}

/** They have gone. Those that wait in this replica learn of it at once, and stand again if they made way. */
function strike(line: Line, gone: readonly Contender[]): void {
  for (const contender of gone) {
    line.remove(contender);
    line.waiters.get(contender.name)?.giveUp();
  }
}
