/** `/v1/runs`: the requests about runs, in the words of the contract. */
import { InvalidError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Coordination } from '../../recipes/coordination.js';
import { readRunsStale } from '../../recipes/run/read.js';
import type { Occurrence, RunRecord, RunRef, RunView, WhichOccurrence } from '../../recipes/run/run.js';
import type { FirstStart, Runs, Start } from '../../recipes/run/runs.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { checkEnded } from './shared/long-poll.js';
import { newLeaseOf } from './shared/one-call.js';
import type { Building } from './shared/serving.js';
import { StateRoutes } from './shared/state-routes.js';
import { leaseOf, namespaceOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

const MAX_ATTEMPTS = 3;

export function runRoutes({ watchables, context, recipes: { run } }: Building): Routes {
  const { runs } = run;
  const state = new StateRoutes<RunRef, RunView, RunView>(context, {
    what: 'the run',
    observers: runs.observers,
    subject: (namespace, name) => runs.ref(namespace, name),
    read: (ref, zk) => readRunsStale(zk, context.layout, ref),
    etagOf: ({ etag }) => etag,
    show: (view, { name }) => ({ body: describe(name, view) }),
    event: (view, { name }) => describe(name, view),
  });
  watchables.set('run', state);
  return {
    startRun: (exchange) => start(context, runs, exchange),
    finishRun: (exchange) => finish(context, runs, exchange),
    forgetRun: async (exchange) => {
      const { occurrence } = exchange.body as Schemas['ForgetRunRequest'];
      const namespace = await namespaceOf(exchange, context.leases, 'admin');
      await runs.forget(runs.ref(namespace, nameOf(exchange)), occurrence, exchange);
      return { status: 204 };
    },
    showRun: (exchange) => state.show(exchange),
    watchRun: (exchange) => state.watch(exchange),
    listRuns: (exchange) => list(context, exchange),
  };
}

async function start({ leases }: Coordination, runs: Runs, exchange: Exchange): Promise<Answer> {
  const body = exchange.body as Schemas['StartRunRequest'];
  const { maxAttempts = MAX_ATTEMPTS, waitMs = 0 } = body;
  const which = whichOf(body);
  const askedIn = (namespace: string): FirstStart => ({
    ref: runs.ref(namespace, nameOf(exchange)),
    which,
    maxAttempts,
    requestId: requestIdOf(exchange, body),
    waitUntil: exchange.receivedAt + waitMs,
    deadline: exchange.deadline + waitMs,
    signal: exchange.signal,
    requester: exchange.requester,
  });
  if (body.lease === undefined) {
    const lease = await leaseOf(exchange, leases);
    return answerStart(exchange, { lease }, await runs.start({ ...askedIn(lease.namespace), lease }));
  }
  const newLease = newLeaseOf(exchange, body, body.lease);
  const { result, ...granted } = await runs.startWithLease(newLease, askedIn(newLease.namespace));
  return answerStart(exchange, granted, result);
}

/** @param granted with the token of a lease that was made in the same request */
function answerStart(
  exchange: Exchange,
  { lease, leaseToken }: { lease: Lease; leaseToken?: string },
  told: Start,
): Answer {
  const body = exchange.body as Schemas['StartRunRequest'];
  const { record } = told;
  if (told.started) {
    const { leaseId, ttlMs } = lease;
    const { fencingToken } = record;
    const expiresAt = instant(told.expiresAt);
    const started = {
      started: true as const,
      ...attemptOf(record),
      fencingToken,
      requestId: requestIdOf(exchange, body),
      leaseId,
      ttlMs,
      expiresAt,
      ...(leaseToken !== undefined && { leaseToken }),
    };
    return { status: 200, body: started satisfies Schemas['StartedRun'] };
  }
  if ((body.waitMs ?? 0) > 0 && told.state === 'running') checkEnded(exchange);
  const refused: Schemas['RefusedRun'] = {
    started: false,
    ...attemptOf(record),
    state: told.state,
    by: runnerOf(record),
    at: instant(record.end?.at ?? record.startedAt),
    ...noteOf(record),
  };
  return { status: 200, body: refused };
}

function whichOf({ occurrence, withinMs }: Schemas['StartRunRequest']): WhichOccurrence {
  if (occurrence === undefined) {
    if (withinMs !== undefined) return { withinMs };
    throw new InvalidError('occurrence', occurrence, 'given, or withinMs in its place');
  }
  if (withinMs === undefined) return occurrence;
  throw new InvalidError('withinMs', withinMs, 'left out where occurrence is given');
}

async function finish({ leases }: Coordination, runs: Runs, exchange: Exchange): Promise<Answer> {
  const { occurrence, outcome, note, fencingToken } = exchange.body as Schemas['FinishRunRequest'];
  const lease = await leaseOf(exchange, leases);
  const finished = await runs.finish({
    ref: runs.ref(lease.namespace, nameOf(exchange)),
    lease,
    occurrence,
    outcome,
    note,
    fencingToken,
    deadline: exchange.deadline,
    requester: exchange.requester,
  });
  return { status: 200, body: describeOccurrence(finished) };
}

/** Of the names alone: what is remembered of each may be long. */
async function list(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, context.leases);
  const page = pageOfAllowed(exchange, namespace);
  const zk = context.control.until(exchange.deadline);
  const directory = context.layout.runs(namespace);
  if (exchange.query['consistency'] !== 'stale') await zk.sync(directory);
  const names = (await zk.names(directory)).page(page);
  const shown = names.slice(0, page.limit);
  const next = names.length > page.limit ? shown.at(-1) : undefined;
  const body: Schemas['RunList'] = { items: shown.map((name) => ({ name })), ...pageTokenOf(next) };
  return { status: 200, body };
}

/** What was first started last comes first. */
function describe(name: string, { occurrences }: RunView): Schemas['Run'] {
  return { name, occurrences: occurrences.map(describeOccurrence).reverse() };
}

function describeOccurrence({ record, state }: Occurrence): Schemas['Occurrence'] {
  const { fencingToken, startedAt, end } = record;
  return {
    ...attemptOf(record),
    state,
    fencingToken,
    by: runnerOf(record),
    startedAt: instant(startedAt),
    ...(end !== undefined && { endedAt: instant(end.at) }),
    ...noteOf(record),
  };
}

function attemptOf({ occurrence, attempt, maxAttempts }: RunRecord): Schemas['Attempt'] {
  return { occurrence, attempt, maxAttempts };
}

function runnerOf({ leaseId, principal, label }: RunRecord): Schemas['RunnerOfRun'] {
  return { leaseId, principal, label };
}

function noteOf({ end }: RunRecord): { note?: string } {
  return end?.note === undefined ? {} : { note: end.note };
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}
