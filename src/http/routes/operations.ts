/** The operations for operators and their tools: health, metrics, the contract and its explanations. */
import type { Config } from '../../config.js';
import { ERROR_CODES, PosternError, type ErrorCode } from '../../errors.js';
import { EXPOSITION_TYPE } from '../../metrics/aggregate.js';
import { LOCK_DELAY_MAX_MS } from '../../recipes/line/delay/lock-delay.js';
import { instant, type Clock } from '../../time.js';
import { negotiate } from '../frame/accept.js';
import { HEADERS_BYTES_MAX } from '../server/connection-errors.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { openApi } from '../contract/openapi.js';
import { asset } from '../pages/asset.js';
import { consoleRoutes } from '../pages/console.js';
import { docsScript } from '../pages/docs/script.js';
import { docsSite } from '../pages/docs/site.js';
import { problemPage } from '../pages/problem-page.js';
import { PROBLEM_GUIDE } from '../pages/problem-guide.js';
import { STYLE } from '../pages/style.js';
import { TARGET_BYTES_MAX } from '../frame/request-target.js';
import { namedNamespaceOf } from './shared/subject.js';

export interface Readiness {
  readonly ready: boolean;
  /** Why the replica is out of service; empty if it is ready. */
  readonly reasons: readonly string[];
}

export interface SessionBounds {
  readonly minTtlMs: number;
  readonly maxTtlMs: number;
}

export interface OperationsOptions {
  readonly config: Config;
  /** Of clients; Infinity: any number. */
  readonly maxConnections: number;
  /** All metrics of the replica in Prometheus' text format. */
  readonly exposition: () => Promise<string | Buffer>;
  readonly clock: Clock;
  readonly version: string;
  readonly readiness: () => Readiness;
  /** Undefined until the ensemble has reported them. */
  readonly sessionBounds: () => SessionBounds | undefined;
  /** Aborted when the replica should get no more requests. */
  readonly leaving: AbortSignal;
}

const OK = 200;
const JSON_TYPE = 'application/json';

export function operationsRoutes(options: OperationsOptions): Routes {
  const startedAt = options.clock.now();
  const startedMonotonic = options.clock.monotonic();
  const limits = limitsOf(options);
  return {
    home: () => Promise.resolve({ status: 302, headers: { Location: '/docs' } }),
    health: () => answer({ status: 'ok' }),
    readiness: () => readinessAnswer(options),
    metrics: async () => ({
      status: OK,
      body: await options.exposition(),
      contentType: EXPOSITION_TYPE,
    }),
    openapiYaml: asset(() => ({ status: OK, body: openApi().text, contentType: 'application/yaml' })),
    openapiJson: asset(() => ({ status: OK, body: JSON.stringify(openApi().document), contentType: JSON_TYPE })),
    ...docsRoutes(),
    ...consoleRoutes(),
    problem: explainProblem,
    status: (exchange) => {
      namedNamespaceOf(exchange, 'read');
      return answer({
        version: options.version,
        node: process.version,
        startedAt: instant(startedAt),
        uptimeMs: Math.round(options.clock.monotonic() - startedMonotonic),
        ...options.readiness(),
        sessionBounds: options.sessionBounds() ?? null,
        limits,
      });
    },
  };
}

function docsRoutes(): Routes {
  let pages: ReadonlyMap<string, ReturnType<typeof asset>> | undefined;
  const serve = async (name: string, exchange: Exchange): Promise<Answer> => {
    pages ??= new Map([...docsSite(openApi())].map(([one, make]) => [one, asset(make)]));
    const page = pages.get(name);
    if (page !== undefined) return page(exchange);
    const names = [...pages.keys()].filter((one) => one !== '');
    throw new PosternError('not-found', `There is no such page; below /docs there are ${names.join(', ')}.`, {
      members: { pages: names },
    });
  };
  return {
    docs: (exchange) => serve('', exchange),
    docsPage: (exchange) => serve(exchange.params['page'] as string, exchange),
    docsStyle: asset(() => ({ status: OK, body: STYLE, contentType: 'text/css; charset=utf-8' })),
    docsScript: asset(docsScript),
  };
}

function answer(body: unknown): Promise<Answer> {
  return Promise.resolve({ status: OK, body });
}

const REASONS_ELSEWHERE = 'Why is told at the port for operations.';

/** A problem, like every 5xx answer; probes read the status, people the reasons. */
async function readinessAnswer({ readiness, leaving }: OperationsOptions): Promise<Answer> {
  const { ready, reasons } = readiness();
  if (ready) return answer({ ready, reasons });
  const code = leaving.aborted ? 'draining' : 'zookeeper-unavailable';
  throw new PosternError(code, `This replica takes no traffic: ${reasons.join(' ')}`, {
    members: { ready, reasons },
  });
}

/**
 * For the main port, which is open to strangers and to keys of one namespace, if there is an operations port: it says
 * that ZooKeeper is away, but not where it is or what the socket reported. Of several ensembles, one that is away
 * leaves the replica ready.
 */
export function withoutReasons(routes: Routes): Routes {
  const { readiness, status } = routes;
  if (readiness === undefined || status === undefined) return routes;
  return {
    ...routes,
    readiness: async (exchange) => {
      try {
        return reasonsElsewhere((await readiness(exchange)) as Answer);
      } catch (error) {
        if (!(error instanceof PosternError) || error.members['ready'] !== false) throw error;
        throw new PosternError(error.code, `This replica takes no traffic. ${REASONS_ELSEWHERE}`, {
          members: { ready: false, reasons: [REASONS_ELSEWHERE] },
          cause: error,
        });
      }
    },
    status: async (exchange) => reasonsElsewhere((await status(exchange)) as Answer),
  };
}

/** @param answer of which the body has `reasons` */
function reasonsElsewhere(answer: Answer): Answer {
  const body = answer.body as Readiness;
  return body.reasons.length === 0 ? answer : { ...answer, body: { ...body, reasons: [REASONS_ELSEWHERE] } };
}

async function explainProblem({ params, headers }: Exchange): Promise<Answer> {
  const code = params['code'] as ErrorCode;
  if (!Object.hasOwn(ERROR_CODES, code)) throw new PosternError('not-found', 'There is no problem of that code.');
  if (negotiate(headers['accept'] as string | undefined, ['text/html', 'application/json']) === 'text/html') {
    return problemPage(code);
  }
  return answer({ code, ...ERROR_CODES[code], ...PROBLEM_GUIDE[code] });
}

function limitsOf({ config, maxConnections }: OperationsOptions): Record<string, number> {
  const { maxWaitMs, maxWaiters, maxAttached, maxBodyBytes, requestTimeoutMs, transactionHistoryMs } = config;
  return {
    maxWaitMs,
    maxLockDelayMs: LOCK_DELAY_MAX_MS,
    maxWaiters,
    maxAttached,
    ...(maxConnections !== Infinity && { maxConnections }),
    maxWaitsPerPrincipal: config.maxWaitsPerPrincipal,
    maxStreamsPerPrincipal: config.maxStreamsPerPrincipal,
    maxLeasesPerPrincipal: config.maxLeasesPerPrincipal,
    maxHoldsPerLease: config.maxHoldsPerLease,
    maxClaimsPerLease: config.maxClaimsPerLease,
    maxPathBytesPerLease: config.maxPathBytesPerLease,
    rateLimit: config.rateLimit,
    rateBurst: config.rateBurst,
    overloadDelayMs: config.overloadDelayMs,
    maxBodyBytes,
    maxBodyBytesAtOnce: config.maxBodyBytesAtOnce,
    maxAnswerBytesAtOnce: config.maxAnswerBytesAtOnce,
    maxBytesAhead: config.maxBytesAhead,
    maxReadBytesAtOnce: config.maxReadBytesAtOnce,
    maxJsonValues: config.maxJsonValues,
    maxMessageBytes: config.maxMessageBytes,
    maxQueueLabels: config.maxQueueLabels,
    maxNames: config.maxNames,
    maxNamespaces: config.maxNamespaces,
    maxSchedules: config.maxSchedules,
    maxPools: config.maxPools,
    maxPoolMembers: config.maxPoolMembers,
    maxScheduleBytes: config.maxScheduleBytes,
    maxWatchedKeys: config.maxWatchedKeys,
    maxTargetBytes: TARGET_BYTES_MAX,
    maxHeaderBytes: HEADERS_BYTES_MAX,
    requestTimeoutMs,
    drainPauseMs: config.drainPauseMs,
    drainMs: config.drainMs,
    maxReservationMs: config.maxReservationMs,
    maxReservations: config.maxReservations,
    maxReservationsPerPrincipal: config.maxReservationsPerPrincipal,
    workers: config.workers,
    transactionHistoryMs,
  };
}
