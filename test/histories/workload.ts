/**
 * What clients do to objects of one kind, and how what they were told is judged: workloads that run anywhere, in a test
 * that kills a replica or in many processes under every fault, and leave histories that can be written down in one
 * place and judged in another.
 */
import type { CallOptions, Client, Reply } from '../support/http/client.js';
import { NotApplied } from './history.js';
import { checkLinearizable, explain, type Model, type Operation } from './linearizable.js';

/** Where clients do their operations, as whoever runs them decides. */
export interface Scene {
  /** The one that is asked now. */
  readonly replica: () => Client;
  /** In [0, 1). */
  readonly random: () => number;
  /**
   * The name of an object for the next operation. Whoever runs the clients renews the names, so that histories stay
   * short; an object is always of one kind.
   */
  readonly object: () => string;
  /** Aborted when it is over: what a client does beside its operations, such as heartbeats, stops then. */
  readonly signal: AbortSignal;
  /** Of the leases that clients take; without it {@link TTL_MS}. */
  readonly ttlMs?: number;
}

export const TTL_MS = 3_000;
/** Of those who settle: no machine is so busy that they lose them, and they end them themselves. */
export const SETTLE_TTL_MS = 8_000;

/** What was going on while a history was recorded, for checks that depend on it. */
export interface Circumstances {
  /**
   * For how long a server of the ensemble keeps it to itself that a session was touched: what it had not passed on is
   * lost with it. Half a tick of the tests, unless no server dies or is cut off: 0.
   */
  readonly touchLagMs?: number;
  /**
   * When something was disturbed: no progress is promised then. Without it nothing is said about progress before the
   * end.
   */
  readonly disturbed?: readonly { readonly begin: number; readonly end: number }[];
}

/** What a {@link History} is to those that do the operations. */
export interface Recorder<I, O> {
  /**
   * Does one operation and records it: an `act` that never comes back is of unknown outcome.
   * @param act gives undefined where nobody knows whether it happened
   * @throws NotApplied what `act` throws, and the operation is not recorded
   */
  record(object: string, client: string, input: I, act: () => Promise<O | undefined>): Promise<O | undefined>;
  add(object: string, operation: Operation<I, O>): void;
}

export interface Workload<I, O> {
  /** `lock`, `queue`, … */
  readonly kind: string;
  /**
   * One client.
   * @returns does its next operation
   * @throws NotApplied what the returned function throws where it could not be done: go on
   */
  start(history: Recorder<I, O>, scene: Scene, client: string): Promise<() => Promise<void>>;
  /** Afterwards, by nobody else at the time, and recorded too. */
  settle?(history: Recorder<I, O>, replica: Client, object: string): Promise<void>;
  /**
   * Complaints about the history of one object; none when all is right. Those that begin with `UNDECIDED` say that it
   * could not be told.
   */
  check(operations: readonly Operation<I, O>[], circumstances?: Circumstances): string[];
}

/**
 * Settles one object through one replica; what the clients of that do beside it, such as heartbeats, stops when it is
 * done.
 */
export async function settleAt(
  replica: Client,
  object: string,
  settle: (scene: Scene) => Promise<void>,
  random: Scene['random'] = () => 0.5,
): Promise<void> {
  const over = new AbortController();
  await settle({ replica: () => replica, random, object: () => object, signal: over.signal, ttlMs: SETTLE_TTL_MS });
  over.abort();
}

/** What takes longer is of unknown outcome; behind it stands a process that was stopped. */
export const ANSWER_WITHIN_MS = 1_500;

export interface AskOptions extends CallOptions {
  withinMs?: number;
}

/**
 * @returns undefined when nobody knows whether it happened
 * @throws NotApplied
 */
export async function ask(
  client: Client,
  method: 'GET' | 'PUT' | 'POST' | 'DELETE',
  path: string,
  { withinMs = ANSWER_WITHIN_MS, ...options }: AskOptions = {},
): Promise<Reply | undefined> {
  const signal = AbortSignal.timeout(Math.ceil(withinMs));
  const reply = await client.call(method, path, { ...options, signal }).catch((error: unknown) => {
    const { code, name } = error as { code?: unknown; name: string };
    if (code === 'ECONNREFUSED') throw new NotApplied();
    // Killed with the answer, or stopped; an answer against the contract is neither.
    if (typeof code === 'string' || name === 'TimeoutError') return undefined;
    throw error;
  });
  if (reply === undefined || reply.status < 500) return reply;
  const { outcome, code, placeKept } = reply.body as { outcome?: string; code?: string; placeKept?: boolean };
  if (placeKept === true) return reply; // in line: that much is known
  if (outcome === 'unknown') return undefined;
  throw new NotApplied(code);
}

/** @throws Error for an answer that nothing in a workload should get */
export function expected(reply: Reply, statuses: readonly number[]): Reply {
  if (statuses.includes(reply.status)) return reply;
  throw new Error(`answered ${reply.status}: ${JSON.stringify(reply.body)}`);
}

/** What the model says of a history, as complaints. */
export function complaints<S, I, O>(model: Model<S, I, O>, operations: readonly Operation<I, O>[]): string[] {
  const verdict = checkLinearizable(model, inOrder(operations));
  return verdict.linearizable === true ? [] : [explain(verdict)];
}

/** In the order in which they began, so that the search finds its way quickly. */
export function inOrder<I, O>(operations: readonly Operation<I, O>[]): Operation<I, O>[] {
  return [...operations].sort((a, b) => a.begin - b.begin);
}

/** An operation as one line of JSON, which knows neither Infinity nor undefined. */
export function encodeOperation<I, O>({ client, begin, end, input, output }: Operation<I, O>): string {
  return JSON.stringify({ client, begin, ...(end !== Infinity && { end }), input, output });
}

export function decodeOperation<I, O>(text: string): Operation<I, O> {
  const { end = Infinity, output, ...rest } = JSON.parse(text) as Omit<Operation<I, O>, 'end'> & { end?: number };
  return { ...rest, end, output };
}
