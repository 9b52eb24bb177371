/**
 * What everybody may see of an election: who leads, and who stands. Up to date: read after a `sync`, unless asked otherwise.
 *
 * The leader is the first in line, as for Curator's LeaderLatch; all who stand are candidates, the leader among them.
 */
import { pageOfNames, type Page } from '../page.js';
import { unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import type { ContenderView } from './describe.js';
import { readContenders, readLine, SHOWN } from './line-view.js';
import { SharedReadings } from './shared-readings.js';

export interface ElectionView {
  leader: ContenderView | undefined;
  /** The first 100, the leader being the first. */
  candidates: ContenderView[];
  candidateCount: number;
}

const KIND = 'election';

/** Requests of the same moment share a reading. */
export class ElectionViews {
  readonly #context: Coordination;
  readonly #readings = new SharedReadings<ElectionView>('the reading of the election');

  constructor(context: Coordination) {
    this.#context = context;
  }

  /** @param since monotonic: the reading must not have been begun before */
  read(namespace: string, name: string, since: number, deadline: number): Promise<ElectionView> {
    const directory = this.#context.layout.line(KIND, namespace, name);
    return this.#readings.read(directory, since, deadline, (until) =>
      describeElection(this.#context, namespace, name, until),
    );
  }
}

export async function describeElection(
  context: Coordination,
  namespace: string,
  name: string,
  deadline: number,
  stale = false,
): Promise<ElectionView> {
  const directory = context.layout.line(KIND, namespace, name);
  for (;;) {
    const line = await readLine(context, directory, deadline, stale);
    const shown = await readContenders(context, directory, line.slice(0, SHOWN), deadline);
    const candidates = shown.map(({ view }) => view);
    // All of them have left since they were listed: whoever came meanwhile may lead.
    if (line.length > 0 && candidates.length === 0) continue;
    return { leader: candidates[0], candidates, candidateCount: line.length };
  }
}

/** Candidates in line order, beginning behind the first `after`. */
export async function listCandidates(
  context: Coordination,
  namespace: string,
  name: string,
  page: { after: number; limit: number },
  deadline: number,
): Promise<{ items: (ContenderView & { position: number })[]; next: number | undefined }> {
  const directory = context.layout.line(KIND, namespace, name);
  const line = await readLine(context, directory, deadline, false);
  const end = page.after + page.limit;
  const read = await readContenders(context, directory, line.slice(page.after, end), deadline);
  return {
    items: read.map(({ view, contender }) => ({ ...view, position: line.indexOf(contender) })),
    next: end < line.length ? end : undefined,
  };
}

export interface ElectionSummary {
  name: string;
  leader: ContenderView | undefined;
  candidateCount: number;
}

/** Elections in which somebody stands, in the order of their names. */
export async function listElections(
  context: Coordination,
  namespace: string,
  page: Page,
  deadline: number,
): Promise<{ items: ElectionSummary[]; next: string | undefined }> {
  const { control, layout } = context;
  const parent = layout.lines(KIND, namespace);
  await control.sync(parent, deadline);
  const names = pageOfNames((await unless(control.getChildren(parent, deadline), 'NO_NODE'))?.children ?? [], page);
  const items: ElectionSummary[] = [];
  for (let i = 0; i < names.length; i += page.limit) {
    const batch = await Promise.all(
      names.slice(i, i + page.limit).map((name) => summarize(context, namespace, name, deadline)),
    );
    for (const election of batch) {
      if (election.candidateCount === 0) continue;
      if (items.length === page.limit) return { items, next: items.at(-1)?.name };
      items.push(election);
    }
  }
  return { items, next: undefined };
}

async function summarize(
  context: Coordination,
  namespace: string,
  name: string,
  deadline: number,
): Promise<ElectionSummary> {
  const directory = context.layout.line(KIND, namespace, name);
  const line = await readLine(context, directory, deadline, true);
  const [leader] = await readContenders(context, directory, line.slice(0, 1), deadline);
  return { name, leader: leader?.view, candidateCount: line.length };
}

/** Whether a fencing token is that of the present leader. Always up to date. */
export async function checkLeader(
  context: Coordination,
  namespace: string,
  name: string,
  fencingToken: number,
  deadline: number,
): Promise<{ current: boolean; latestFencingToken: number | null }> {
  const directory = context.layout.line(KIND, namespace, name);
  const line = await readLine(context, directory, deadline, false);
  // One more than the first, should that one leave just now.
  const [leader] = await readContenders(context, directory, line.slice(0, 2), deadline);
  const latest = leader?.view.fencingToken ?? null;
  return { current: latest === fencingToken, latestFencingToken: latest };
}
