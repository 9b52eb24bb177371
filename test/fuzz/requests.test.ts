/**
 * Requests by chance, made from the contract and then made wrong, against two replicas with API keys: never a 500,
 * never a crash, never an answer outside the contract, and nothing is left behind.
 *
 * `FUZZ_REQUESTS=100000` for more of them, `FUZZ_SEED` for the same ones again.
 */
import { env } from 'node:process';
import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fourLetterWord } from '../../scripts/lib/zookeeper.mjs';
import { makeApiKeys, type ApiKeys } from '../support/http/api-keys.js';
import { expectContract, type CheckedAnswer } from '../support/http/contract.js';
import { eventually } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled, timing } from '../support/timing.js';
import { Chance } from './chance.js';
import { LIMITS, PRINCIPALS, type PrincipalName } from './draft.js';
import { garbled } from './garbled.js';
import { makeRequest, type MadeRequest } from './made-request.js';
import { Memory } from './memory.js';
import { Wire } from './wire.js';

const REQUESTS = Number(env['FUZZ_REQUESTS'] ?? 10_000);
const AT_ONCE = 24;
/** A wait, and the time that an answer has without one. */
const PATIENCE_MS = scaled(20_000);

/** What says that a request was bad input; one that keeps the contract gets none of them. */
const BAD_INPUT = [400, 401, 405, 406, 413, 414, 415, 431];

const root = freshRoot();
let keys: ApiKeys;
let replicas: ReplicaProcess[];
beforeAll(async () => {
  keys = await makeApiKeys({
    root: '*',
    alice: { default: ['read', 'use'], other: ['read'] },
    reader: { default: ['read'] },
  });
  const settings = {
    POSTERN_AUTH_FILE: keys.file,
    POSTERN_LOG_LEVEL: 'info',
    POSTERN_MAX_WAIT_MS: String(LIMITS.maxWaitMs),
    POSTERN_MAX_BODY_BYTES: String(LIMITS.maxBodyBytes),
    POSTERN_MAX_MESSAGE_BYTES: String(LIMITS.maxMessageBytes),
  };
  replicas = await Promise.all([spawnReplica({ root, settings }), spawnReplica({ root, settings })]);
});
afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
  await keys[Symbol.asyncDispose]();
});

test(
  `${REQUESTS} requests, many of them wrong, get answers of the contract and leave nothing behind`,
  { timeout: scaled(120_000) + REQUESTS * scaled(30) },
  async () => {
    const chance = new Chance();
    console.log(`${REQUESTS} requests: FUZZ_SEED=${chance.seed}`);
    const memory = new Memory();
    const secrets = Object.fromEntries(PRINCIPALS.map((name) => [name, keys.as(name, '').key])) as Record<
      PrincipalName,
      string
    >;
    const before = await Promise.all(replicas.map(levels));
    const wires = replicas.map(({ url }) => new Wire(url));
    const seen = new Map<number, number>();
    const failures: string[] = [];
    let sent = 0;

    async function client(): Promise<void> {
      while (sent < REQUESTS && failures.length < 20) {
        const wire = wires[sent % wires.length] as Wire;
        sent += 1;
        const request = makeRequest(chance, memory, secrets);
        const raw = chance.percent(8) ? garbled(request.raw, chance) : request.raw;
        const isGarbled = raw !== request.raw;
        const leaves = chance.percent(3);
        try {
          const answer = await wire.send(raw, {
            isHead: raw.toString('latin1', 0, 5) === 'HEAD ',
            halfClose: isGarbled || request.framing !== undefined,
            patienceMs: PATIENCE_MS,
            ...(leaves && { leaveAfterMs: chance.integer(0, 30) }),
          });
          if (leaves) continue;
          seen.set(answer?.status ?? 0, (seen.get(answer?.status ?? 0) ?? 0) + 1);
          check(request, answer, isGarbled);
          // A request that was changed may have been about another namespace than the one it was made for.
          const isAsMade = !isGarbled && request.wrong.length === 0;
          if (isAsMade && answer !== undefined && answer.status < 300 && !request.operation.isPublic)
            memory.learn(
              answer.body,
              answer.headers['etag'] as string | undefined,
              request.principal,
              request.namespace,
            );
        } catch (error) {
          const wrong = [...request.wrong, ...(isGarbled ? ['garbled'] : [])].join(', ');
          failures.push(
            `${inspect(error)}\nwrong: ${wrong || 'nothing'}\n${JSON.stringify(raw.toString('latin1', 0, 800))}`,
          );
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, client));
    for (const wire of wires) wire.close();
    console.log(`answers: ${JSON.stringify(Object.fromEntries([...seen].sort()))}`);
    if (failures.length > 0) throw new Error(failures.join('\n\n'));

    await expectServing();
    await expectNothingLeft(before);
    for (const { output } of replicas) expectCleanLog(output, [...memory.leaseTokens, ...Object.values(secrets)]);
  },
);

function check(request: MadeRequest, answer: CheckedAnswer | undefined, isGarbled: boolean): void {
  if (isGarbled) return checkGarbled(answer);
  if (answer === undefined) {
    if (request.framing !== undefined) return;
    throw new Error('the connection was closed in place of an answer');
  }
  const { status } = answer;
  const asked = `${request.operation.operationId} answered ${status} ${JSON.stringify(answer.body)}`;
  if (status >= 500) throw new Error(asked);
  expectContract(request.method, request.path, answer);
  if (request.mustRefuse !== undefined && (status < 400 || status > 499))
    throw new Error(`${asked}, although ${request.mustRefuse}`);
  if (request.wrong.length > 0) return;
  if (BAD_INPUT.includes(status)) throw new Error(`${asked} to a request that keeps the contract`);
  // A token that is drawn opens no reservation, whoever brings it.
  const opensNothing = status === 403 && /reservation-token/.test(JSON.stringify(answer.body));
  if (status === 403 && !opensNothing && request.principal === 'root')
    throw new Error(`${asked} to who may do everything`);
}

/** Perhaps not even HTTP any more: what counts is that the answer, if any, is one. */
function checkGarbled(answer: CheckedAnswer | undefined): void {
  if (answer === undefined || answer.status < 400) return;
  if (answer.status > 499) throw new Error(`answered ${answer.status} ${JSON.stringify(answer.body)}`);
  if (answer.headers['trace-id'] === undefined) throw new Error(`an answer ${answer.status} without Trace-Id`);
}

async function expectServing(): Promise<void> {
  const [{ url: one }, { url: other }] = replicas as [ReplicaProcess, ReplicaProcess];
  await using a = keys.as('root', one);
  await using b = keys.as('root', other);
  const lease = await a.createLease({ ttlMs: 20_000 });
  await a.hold('after-all', lease);
  expect((await b.release('after-all', lease)).status).toBe(204);
  expect((await b.endLease(lease)).status).toBe(204);
}

const SOCKETS = 'postern_nodejs_active_resources{type="TCPSocketWrap"}';
/** To ZooKeeper, and from the client that asks for the metrics, which may keep one more for the next time. */
const SOCKETS_AT_REST = 3;
const LEVELS = [
  'postern_http_requests_in_flight',
  'postern_leases_attached',
  'postern_waiters',
  'postern_watches',
  SOCKETS,
];

/** What a replica has open now, by its metrics. */
async function levels(replica: ReplicaProcess): Promise<Record<string, number>> {
  const page = (await replica.call('GET', '/metrics')).body as string;
  return Object.fromEntries(
    LEVELS.map((name) => [
      name,
      page
        .split('\n')
        .filter((line) => line.startsWith(name))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0),
    ]),
  );
}

/** Leases end by themselves, and what is known of queues is kept for some seconds. */
async function expectNothingLeft(before: Record<string, number>[]): Promise<void> {
  await eventually(
    'what is open is what was open at the start',
    async () => {
      const now = await Promise.all(replicas.map(levels));
      const atRest = (level: Record<string, number>, i: number): boolean =>
        LEVELS.every((name) => level[name]! <= Math.max(before[i]![name]!, name === SOCKETS ? SOCKETS_AT_REST : 0));
      if (now.every(atRest)) return true;
      throw new Error(`${JSON.stringify(now)} after ${JSON.stringify(before)}; ${await watched()}`);
    },
    { withinMs: timing.processMs, everyMs: 200 },
  );
}

/** The nodes whose data or existence is watched; of watches on children no server tells. */
async function watched(): Promise<string> {
  const paths = await fourLetterWord(Number(sharedZooKeeper().split(':')[1]), 'wchp');
  return paths
    .split('\n')
    .filter((line) => line.startsWith(root))
    .join(' ');
}

function expectCleanLog(output: string, secrets: readonly string[]): void {
  const lines = output.split('\n').filter((line) => line !== '');
  // What Node itself has to say, such as a warning of a leak, is no line of the log.
  expect(lines.filter((line) => !line.startsWith('{'))).toEqual([]);
  const errors = lines.filter((line) => ['error', 'fatal'].includes((JSON.parse(line) as { level: string }).level));
  expect(errors).toEqual([]);
  expect(secrets.filter((secret) => output.includes(secret))).toEqual([]);
}
