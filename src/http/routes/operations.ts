/**
 * What operators and their machines ask for: health, metrics, the contract and its explanations.
 */
import type { Config } from '../../config.js';
import { ERROR_CODES, PosternError, type ErrorCode } from '../../errors.js';
import { EXPOSITION_TYPE } from '../../metrics/aggregate.js';
import { LOCK_DELAY_MAX_MS } from '../../recipes/lock-delay.js';
import { instant, type Clock } from '../../time.js';
import { negotiate } from '../accept.js';
import { HEADERS_BYTES_MAX } from '../connection-errors.js';
import type { Answer, Exchange, Routes } from '../exchange.js';
import { openApi } from '../openapi.js';
import { docsPage } from '../pages/docs.js';
import { problemPage } from '../pages/problem-page.js';
import { PROBLEM_GUIDE } from '../problem-guide.js';
import { TARGET_BYTES_MAX } from '../request-target.js';

export interface Readiness {
  readonly ready: boolean;
  /** What keeps the replica out of service; empty when it is ready. */
  readonly reasons: readonly string[];
}

export interface SessionBounds {
  readonly minTtlMs: number;
  readonly maxTtlMs: number;
}

export interface OperationsOptions {
  readonly config: Config;
  /** All metrics of the replica, as Prometheus reads them. */
  readonly exposition: () => Promise<string>;
  readonly clock: Clock;
  readonly version: string;
  readonly readiness: () => Readiness;
  /** Undefined while the ensemble has not told. */
  readonly sessionBounds: () => SessionBounds | undefined;
  /** Aborted when the replica is to get no more requests. */
  readonly leaving: AbortSignal;
}

const OK = 200;

export function operationsRoutes(options: OperationsOptions): Routes {
  const startedAt = options.clock.now();
  const startedMonotonic = options.clock.monotonic();
  let docs: Answer | undefined;

  return {
    home: () => Promise.resolve({ status: 302, headers: { Location: '/docs' } }),
    health: () => answer({ status: 'ok' }),
    readiness: () => readinessAnswer(options),
    metrics: async () => ({
      status: OK,
      body: await options.exposition(),
      contentType: EXPOSITION_TYPE,
    }),
    openapiYaml: () => Promise.resolve({ status: OK, body: openApi().text, contentType: 'application/yaml' }),
    openapiJson: () => answer(openApi().document),
    docs: () => Promise.resolve((docs ??= docsPage(openApi()))),
    problem: explainProblem,
    status: () =>
      answer({
        version: options.version,
        node: process.version,
        startedAt: instant(startedAt),
        uptimeMs: Math.round(options.clock.monotonic() - startedMonotonic),
        ready: options.readiness().ready,
        sessionBounds: options.sessionBounds() ?? null,
        limits: limitsOf(options.config),
      }),
  };
}

function answer(body: unknown): Promise<Answer> {
  return Promise.resolve({ status: OK, body });
}

/** A problem, like every answer of a 5xx status; probes read the status, people the reasons. */
async function readinessAnswer({ readiness, leaving }: OperationsOptions): Promise<Answer> {
  const { ready, reasons } = readiness();
  if (ready) return answer({ ready, reasons });
  const code = leaving.aborted ? 'draining' : 'zookeeper-unavailable';
  throw new PosternError(code, `This replica takes no traffic: ${reasons.join(', ')}.`, {
    members: { ready, reasons },
  });
}

async function explainProblem({ params, headers }: Exchange): Promise<Answer> {
  const code = params['code'] as ErrorCode;
  if (!Object.hasOwn(ERROR_CODES, code)) throw new PosternError('not-found', 'There is no problem of that code.');
  if (negotiate(headers['accept'] as string | undefined, ['text/html', 'application/json']) === 'text/html') {
    return problemPage(code);
  }
  return answer({ code, ...ERROR_CODES[code], ...PROBLEM_GUIDE[code] });
}

function limitsOf(config: Config): Record<string, number> {
  const { maxWaitMs, maxWaiters, maxAttached, maxBodyBytes, requestTimeoutMs, transactionHistoryMs } = config;
  return {
    maxWaitMs,
    maxLockDelayMs: LOCK_DELAY_MAX_MS,
    maxWaiters,
    maxAttached,
    maxWaitsPerPrincipal: config.maxWaitsPerPrincipal,
    maxStreamsPerPrincipal: config.maxStreamsPerPrincipal,
    maxLeasesPerPrincipal: config.maxLeasesPerPrincipal,
    rateLimit: config.rateLimit,
    rateBurst: config.rateBurst,
    overloadDelayMs: config.overloadDelayMs,
    maxBodyBytes,
    maxMessageBytes: config.maxMessageBytes,
    maxQueueLabels: config.maxQueueLabels,
    maxTargetBytes: TARGET_BYTES_MAX,
    maxHeaderBytes: HEADERS_BYTES_MAX,
    requestTimeoutMs,
    drainPauseMs: config.drainPauseMs,
    drainMs: config.drainMs,
    workers: config.workers,
    transactionHistoryMs,
  };
}
