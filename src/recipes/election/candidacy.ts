/**
 * A leader's writes to its own node: its value (proclaim), and that it has taken over (acknowledge).
 *
 *   1. on the lease's session: `sync`, list     mine is the first? else 409 `not-holder`
 *   2. on the lease's session: read my node     it is the lease's own, in the incarnation that was asked for (C7, C8,
 *                                               C10)
 *   3. on the lease's session: write at that version   BAD_VERSION: somebody wrote in between, begin again
 *
 * The set of contenders before one only shrinks, so the first at 1 is still first at 3 if its node exists. The write
 * proves that, and that the lease lives. The write carries an attempt of its own: a campaign whose answer is still on
 * its way cannot give up a place that the client has just spoken for (C1). It also writes `granted`: a candidate that
 * nobody waited for may lead without having been told.
 *
 * A lost connection: all of it again on a new one, which writes the same once more.
 */
import { NotHolderError, PosternError } from '../../errors.js';
import { requestGuid, type Lease } from '../../leases/lease.js';
import type { Requester } from '../../time.js';
import { isReason, NoReplyError } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import {
  decodeHoldId,
  decodeRecord,
  encodeRecord,
  guidOf,
  holdNodeName,
  newAttempt,
  ownHoldId,
  sortLine,
  type Contender,
  type ContenderRecord,
} from '../line/contender.js';
import type { Coordination } from '../coordination.js';

export interface LeaderRequest {
  lease: Lease;
  name: string;
  /** Exactly one candidacy; without it the one under `requestId`. */
  candidateId: string | undefined;
  requestId: string;
  deadline: number;
  requester: Requester;
}

export interface LeaderWritten {
  candidateId: string;
  fencingToken: number;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
}

const KIND = 'election';

/**
 * Changes the leader's value.
 * @throws NotHolderError when the candidacy does not lead, LeaseExpiredError, NoReplyError
 */
export function proclaim(context: Coordination, request: LeaderRequest, value: unknown): Promise<LeaderWritten> {
  return writeAsLeader(context, request, (before) => ({
    data: value,
    candidate: before.candidate ?? { acknowledged: false },
  }));
}

/** Says that the leader has taken over. @throws as `proclaim` */
export function acknowledge(context: Coordination, request: LeaderRequest): Promise<LeaderWritten> {
  return writeAsLeader(context, request, ({ candidate }) => ({ candidate: { ...candidate, acknowledged: true } }));
}

type Change = (before: ContenderRecord) => Pick<ContenderRecord, 'candidate'> & { data?: unknown };

async function writeAsLeader(context: Coordination, request: LeaderRequest, change: Change): Promise<LeaderWritten> {
  const { leases } = context;
  const { lease, name, deadline, requester } = request;
  let maybeWritten = false;
  const write = async (session: LeaseSession): Promise<LeaderWritten | PosternError> => {
    try {
      for (;;) {
        const tried = await tryToWrite(context, session, request, change);
        if (tried !== 'again')
          return tried instanceof PosternError ? tried : { ...tried, expiresAt: leases.expiresAt(session) };
        if (performance.now() > deadline)
          throw new PosternError(
            'conflict',
            `The candidacy for "${name}" was written to meanwhile; repeat the request.`,
          );
      }
    } catch (error) {
      maybeWritten ||= error instanceof NoReplyError && error.maybeApplied;
      throw error;
    }
  };
  const written = await leases.sessions.useRepeatedly(lease, deadline, write, requester);
  if (!(written instanceof PosternError)) return written;
  // The candidacy that an earlier try may have written to has gone since.
  if (maybeWritten) throw new NoReplyError('the write to the candidacy', 'connection-lost', true);
  throw written;
}

/** @returns an error when the candidacy does not lead, 'again' when somebody else wrote to it */
async function tryToWrite(
  context: Coordination,
  session: LeaseSession,
  request: LeaderRequest,
  change: Change,
): Promise<{ candidateId: string; fencingToken: number } | 'again' | PosternError> {
  const { lease, name, deadline } = request;
  const zk = session.until(deadline);
  const directory = context.layout.line(KIND, lease.namespace, name);
  const line = await session.readToWrite(
    directory,
    async () => sortLine(await zk.children(directory)),
    ([leader]) => leader !== undefined && isMine(leader, request),
    deadline,
  );
  const [first] = line;
  const gone = new NotHolderError(KIND, name);
  if (first === undefined) return gone;
  if (!isMine(first, request)) return doesNotLead(request, line);
  const path = `${directory}/${first.name}`;
  const node = await zk.find(path);
  const before = node === undefined ? undefined : decodeRecord(node.data);
  if (node === undefined || before === undefined || node.stat.ephemeralOwner !== lease.sessionId) return gone;
  const candidateId = ownHoldId(first.name, node.stat.czxid) as string;
  if (request.candidateId !== undefined && request.candidateId !== candidateId) return gone;
  const record: ContenderRecord = {
    ...before,
    state: 'granted',
    grantedAt: before.grantedAt ?? context.zooKeeperClock.now(),
    attempt: newAttempt(),
    ...change(before),
  };
  delete record.waitUntil;
  try {
    await zk.set(path, encodeRecord(record), node.stat.version);
  } catch (error) {
    if (isReason(error, 'BAD_VERSION')) return 'again';
    if (isReason(error, 'NO_NODE')) return gone;
    throw error;
  }
  return { candidateId, fencingToken: node.stat.czxid };
}

function doesNotLead(request: LeaderRequest, line: readonly Contender[]): PosternError {
  const before = line.findIndex((contender) => isMine(contender, request));
  if (before === -1) return new NotHolderError(KIND, request.name);
  return new PosternError(
    'not-holder',
    `This candidacy does not lead election "${request.name}": it stands in line, with ${before} before it, and stays there.`,
  );
}

/** Whether the node's name is that of the candidacy that is asked for. */
function isMine({ name }: Contender, { lease, name: election, candidateId, requestId }: LeaderRequest): boolean {
  if (candidateId === undefined) {
    const { principal, namespace } = lease;
    // One that was made together with its lease stands under the guid of that call.
    const guids = [lease.guid(KIND, election, requestId), requestGuid(principal, namespace, KIND, election, requestId)];
    return guids.includes(guidOf(name) ?? '');
  }
  const hold = decodeHoldId(candidateId);
  return hold !== undefined && holdNodeName(hold) === name;
}
