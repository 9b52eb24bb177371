/**
 * Transfer: the leader makes way for a stated candidate, once.
 *
 * Guarantee: the leader's node is deleted in a transaction that checks that the candidate's exists, which is the next
 *   in line. So leadership goes to that candidate or stays, never to nobody and never to two; and the new leader's
 *   fencing token is higher than all before it, because it came later.
 * Not guaranteed: that the candidate keeps what it got, or that the leader waits for the end of the grace: if it
 *   resigns or its lease ends by itself when the candidate has gone, whoever is next leads, as ever.
 *
 * The token of a leader is the czxid of its node, so nobody who came earlier may lead after the candidate: those who
 * stand between it and the leader are *overtaken*. Their nodes are deleted, their leases are told (`lost`), and their
 * waiting campaigns stand again, behind all others (`line/acquire.ts`); who waits without a request campaigns again.
 *
 * Step by step, and what a crash after each leaves:
 *
 * 1. *Ask*, in one transaction: `check` that leader and candidate stand, delete those between them, each with a record
 *    of that, and ask the leader back, as a revocation does (`line/revocation/revocation.ts`), with the candidate as
 *    `successor`. Whoever of them has gone meanwhile makes it fail, and the line is read again. A crash before leaves
 *    nothing (or empty directories, which housekeeping removes). After it the leader leads, the candidate is the
 *    next, and any replica goes on.
 * 2. *Break*, when the grace is over (`line/revocation/break-hold.ts`): as of any revocation, with a `check` of the
 *    successor. If that has gone, the record goes instead, and the leader stays.
 *
 * A candidate that is no Postern's cannot be told that it was overtaken, and a leader that is none cannot be asked:
 * 409.
 * Source: etcd's MoveLeader; Kubernetes' coordinated leader election (`preferredHolder`).
 */
import { PosternError, StandingConflictError } from '../../errors.js';
import type { Requester } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { orUnknown } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { decodeHoldId, holdNodeName, sortLine, type Contender } from '../line/contender.js';
import { askBack, cannotBeAsked, endOfGrace, type Succession } from '../line/revocation/revocation.js';
import { overtake, readStanding, type Standing } from './overtaking.js';

export interface TransferRequest {
  namespace: string;
  name: string;
  /** Who is to lead. */
  candidateId: string;
  reason: string | undefined;
  /** How long the leader may go on if it does not resign; 0: not at all. */
  graceMs: number;
  deadline: number;
  requester: Requester;
}

export interface Transferred {
  /** Whether the candidate leads by now. */
  leads: boolean;
  /** Epoch ms on the ensemble's clock: when the leader is deposed, while it leads. */
  breakAt: number | undefined;
  /** How many candidates stood between the two, and stand no more. */
  overtaken: number;
}

const KIND = 'election';
/** What they take in one transaction is far below the packet limit, also with the longest names. */
const OVERTAKEN_MAX = 100;
/** Each try that fails had somebody leave in that moment. */
const TRIES_MAX = 20;

/**
 * @throws PosternError `not-holder` when the candidate does not stand, `conflict` when the leader, or somebody between
 *   the two, is no Postern's, or there are too many of them
 */
export async function transfer(context: Coordination, request: TransferRequest): Promise<Transferred> {
  const { namespace, name, candidateId, graceMs, deadline } = request;
  const directory = context.layout.line(KIND, namespace, name);
  const breakAt = await endOfGrace(context, graceMs, deadline);
  const zk = context.control.until(deadline);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const line = await readAll(zk, directory);
    const position = await positionOf(zk, directory, line, candidateId);
    if (position === undefined)
      throw new PosternError('not-holder', `Nobody stands in election "${name}" under this candidateId.`);
    if (position === 0) return { leads: true, breakAt: undefined, overtaken: 0 };
    checkCount(name, position - 1);
    const before = await readStanding(zk, directory, line.slice(0, position));
    const [leader, ...between] = before;
    if (leader === undefined || before.length < position) continue;
    checkOurs(directory, name, leader, between);
    const successor = `${directory}/${(line[position] as Contender).name}`;
    const operations: MultiOperation[] = [{ type: 'check', path: successor }];
    operations.push(...(await overtake(context, zk, request, between)));
    const succession = { successor, operations };
    const asked = await ask(context, request, leader, breakAt, succession);
    if (asked === undefined) continue;
    context.metrics.revocationsTotal.inc({ kind: KIND, outcome: 'asked' });
    const leads = graceMs === 0 && (await orUnknown(leadsNow(zk, directory, request)));
    return { leads, breakAt: leads ? undefined : asked.breakAt, overtaken: between.length };
  }
  throw new PosternError('conflict', `Candidates of "${name}" left meanwhile, again and again; repeat the request.`);
}

function ask(
  context: Coordination,
  request: TransferRequest,
  { contender, view }: Standing,
  breakAt: number,
  succession: Succession,
): ReturnType<typeof askBack> {
  const { namespace, name } = request;
  const path = `${context.layout.line(KIND, namespace, name)}/${contender.name}`;
  return askBack(context, { ...request, kind: KIND, succession }, path, view, breakAt);
}

/** Also the second nodes that repeated requests have for a moment: each of them could come to lead. */
function readAll(zk: BoundClient, directory: string): Promise<Contender[]> {
  return zk.fresh(async () => sortLine(await zk.children(directory)));
}

/** @returns undefined when it does not stand in the line, in that incarnation (protocol C10) */
async function positionOf(
  zk: BoundClient,
  directory: string,
  line: readonly Contender[],
  candidateId: string,
): Promise<number | undefined> {
  const hold = decodeHoldId(candidateId);
  if (hold === undefined) return undefined;
  const name = holdNodeName(hold);
  const position = line.findIndex((contender) => contender.name === name);
  if (position === -1) return undefined;
  const stat = await zk.exists(`${directory}/${name}`);
  return stat?.czxid === hold.czxid ? position : undefined;
}

function checkCount(name: string, between: number): void {
  if (between <= OVERTAKEN_MAX) return;
  throw new StandingConflictError(
    `${between} candidates stand between the leader of "${name}" and this one; at most ${OVERTAKEN_MAX} can be overtaken at once. Nothing was changed.`,
  );
}

/** @throws StandingConflictError for the first that could not learn what happens to it */
function checkOurs(directory: string, name: string, leader: Standing, between: readonly Standing[]): void {
  if (leader.view.external) throw cannotBeAsked({ kind: KIND, name }, directory, leader);
  const foreign = between.find(({ view }) => view.external);
  if (foreign === undefined) return;
  throw new StandingConflictError(
    `The node ${directory}/${foreign.contender.name} stands between the leader of "${name}" and this candidate, and was made by a client other than Postern: it cannot be told that it was overtaken. Nothing was changed.`,
    { name, holder: { leaseId: null, label: null, external: true } },
  );
}

/** @throws PosternError `conflict` when the candidate has gone since the leader was asked */
async function leadsNow(zk: BoundClient, directory: string, request: TransferRequest): Promise<boolean> {
  const line = await readAll(zk, directory);
  const position = await positionOf(zk, directory, line, request.candidateId);
  if (position !== undefined) return position === 0;
  throw new PosternError(
    'conflict',
    `The candidate left election "${request.name}" while it was made the leader. If it did before it led, the leader stays.`,
    { outcome: 'unknown' },
  );
}
