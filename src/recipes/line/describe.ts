/** The public view of a contender. Never a session id, nor anything from which one follows. */
import type { NodeData } from '../../zookeeper/operations.js';
import {
  decodeRecord,
  holdIdOf,
  modeOf,
  type Contender,
  type ContenderRecord,
  type Mode,
  type ReservedPlace,
} from './contender.js';

/** The most that a node of ours has: the `data` of a candidate, 4 KiB, is in it twice. */
export const CONTENDER_BYTES = 10 * 1024;

export interface ContenderView {
  state: 'waiting' | 'granted';
  mode: Mode;
  /** Semaphores only: how many permits. */
  count: number | undefined;
  holdId: string;
  /** Empty for foreign clients. */
  leaseId: string;
  principal: string;
  label: string;
  fencingToken: number;
  /** Epoch ms on the ensemble's clock: of the grant for holders, of joining for waiters. */
  since: number;
  /** As an answer shows it (`json-text.ts`). */
  data: unknown;
  /** Candidates of elections only. */
  acknowledged?: boolean;
  /** Candidates of elections only. */
  preference?: number;
  /** In the room of a lock by priority only. */
  priority?: number;
  /** Its place does not end with its lease; without `until` it is wanted and does. */
  reservation?: ReservedPlace;
  /** Not made by Postern: it has no state, so the head of the line is taken to hold. */
  external: boolean;
}

export function describeContender(
  contender: Contender,
  { data, stat }: Pick<NodeData, 'data' | 'stat'>,
): ContenderView {
  const record = decodeRecord(data);
  const holdId = holdIdOf(contender, stat);
  const mode = modeOf(contender);
  if (record === undefined) {
    return {
      state: 'granted',
      mode,
      count: contender.permits,
      holdId,
      leaseId: '',
      principal: '',
      label: '',
      fencingToken: stat.czxid,
      since: stat.ctime,
      data: foreignId(contender, data),
      external: true,
    };
  }
  return {
    state: record.state,
    mode,
    count: contender.permits,
    holdId,
    leaseId: record.leaseId,
    principal: record.principal,
    label: record.label,
    fencingToken: stat.czxid,
    since: record.state === 'granted' ? (record.grantedAt ?? stat.ctime) : stat.ctime,
    data: record.data ?? null,
    ...describeCandidate(record),
    ...(contender.priority === undefined ? {} : { priority: contender.priority }),
    ...(record.reservation === undefined ? {} : { reservation: record.reservation }),
    external: false,
  };
}

function describeCandidate({ candidate }: ContenderRecord): Pick<ContenderView, 'acknowledged' | 'preference'> {
  if (candidate === undefined) return {};
  return { acknowledged: candidate.acknowledged, preference: candidate.preference ?? 0 };
}

const FOREIGN_ID_MAX = 4_096;

/** The data of Curator's LeaderLatch is the participant's id; that of other foreign clients means nothing to us. */
function foreignId({ name }: Contender, data: Buffer): string | null {
  return name.includes('latch-') ? data.toString('utf8', 0, FOREIGN_ID_MAX) : null;
}
