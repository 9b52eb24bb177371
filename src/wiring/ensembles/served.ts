/**
 * What a process serves: the one ensemble of `POSTERN_ZOOKEEPER`, or with the file of `POSTERN_ENSEMBLES` several side
 * by side, each with sessions, caches, recipes and metrics of its own (ADR 41).
 */
import { readFileSync } from 'node:fs';
import { reasonOf, watchFiles } from '../../http/access/watched-file.js';
import type { Config } from '../../config.js';
import type { Routes, Scope } from '../../http/frame/exchange.js';
import type { ZooKeeperLimit } from '../../http/overload/overload.js';
import { openApi } from '../../http/contract/openapi.js';
import { chosenRoutes } from '../../http/routes/choice.js';
import type { Readiness } from '../../http/routes/operations.js';
import { toldOfEnsemble, toldOfProcess, type MetricsTold } from '../../metrics/aggregate.js';
import { createMetrics } from '../../metrics/metrics.js';
import { contradictions, dangers } from '../../settings/safety.js';
import { version } from '../../version.js';
import { Backlog } from '../../zookeeper/connection/backlog.js';
import { BacklogLimit } from '../../zookeeper/connection/backlog-limit.js';
import { ServedEnsemble, type ServedEnsembleOptions } from '../served-ensemble.js';
import { Agreement } from './agreement.js';
import { EnsembleHomes } from './homes.js';
import { DEFAULT_ENSEMBLE, parseFile, type EnsembleEntry, type EnsemblesFile } from './map.js';
import type { Member } from './member.js';
import { StoredMap } from './stored-map.js';

/** What all ensembles of a process are made with; `metrics` are those of the process. */
export type ServedOptions = Omit<ServedEnsembleOptions, 'backlog' | 'isOpen'> & {
  /** How often the file is looked at, ms. Default: as every watched file. */
  readonly pollMs?: number | undefined;
};

export interface Served {
  /** That of `POSTERN_ZOOKEEPER`. */
  readonly first: ServedEnsemble;
  readonly all: readonly ServedEnsemble[];
  readonly zooKeeperLimit: ZooKeeperLimit;
  /** @param make the routes of recipes on one ensemble */
  routes(make: (ensemble: ServedEnsemble) => Routes): Routes;
  readiness(): Readiness;
  /** Sets the metrics of what is looked at rather than counted. */
  tell(): void;
  /** Undefined: all metrics are those of the process. */
  readonly told: (() => Promise<readonly MetricsTold[]>) | undefined;
  start(): void;
  /** Ends what was begun; the ensembles are ended by the caller. */
  close(): void;
}

/** @throws Error with one sentence if a connect string or the file cannot be used */
export function servedOf(options: ServedOptions): Served {
  const { ensembles } = options.config;
  return ensembles === undefined ? oneOf(options) : manyOf(options, ensembles);
}

function oneOf(options: ServedOptions): Served {
  const { config, clock } = options;
  const backlog = new Backlog();
  const first = new ServedEnsemble({ ...options, backlog });
  return {
    first,
    all: [first],
    zooKeeperLimit: new BacklogLimit(backlog, config.overloadDelayMs, clock.monotonic()),
    routes: (make) => make(first),
    readiness: () => first.readiness,
    tell: () => first.tell(),
    told: undefined,
    start: () => first.start(),
    close: () => undefined,
  };
}

function manyOf(options: ServedOptions, path: string): Served {
  const { logger, metrics, pollMs } = options;
  const { map, entries } = readEnsembles(path);
  let homes: EnsembleHomes | undefined;
  const members = membersOf(options, entries, {
    onTaken: () => homes?.review(),
    onRead: () => agreement.look(),
    isOpen: (name, namespace) => homes?.isOpen(name, namespace) ?? false,
  });
  const onRefused = (isRefused: boolean): void => metrics.ensembleFileRefused.set(isRefused ? 1 : 0);
  const agreement = new Agreement({ map, entries }, { members, entries, logger, onRefused });
  const file = watchFiles<EnsemblesFile>({
    files: [path],
    read: () => readEnsembles(path),
    onChange: (changed) => agreement.propose(changed),
    onFault: (error) => agreement.unreadable((error as Error).message),
    pollMs,
  });
  const all = [...members.values()];
  return {
    first: (members.get(DEFAULT_ENSEMBLE) as Member).ensemble,
    all: all.map(({ ensemble }) => ensemble),
    zooKeeperLimit: limitOf(all, options),
    routes(make) {
      const made = all.map((member) => ({
        ...member,
        routes: make(member.ensemble),
        context: member.ensemble.foundation.context,
      }));
      homes = new EnsembleHomes(made, () => file.current.map);
      return chosenRoutes(homes, reads());
    },
    readiness: () => readinessOf(all, agreement, options.leaving),
    tell: () => tellOf(all, agreement, options),
    told: () => toldOf(all, options),
    start() {
      for (const { ensemble, stored } of all) {
        ensemble.start();
        stored.start();
      }
    },
    close() {
      file.close();
      agreement.close();
      for (const { stored } of all) stored.stop();
    },
  };
}

interface MemberWithBacklog extends Member {
  readonly backlog: Backlog;
}

interface Hooks {
  readonly onTaken: () => void;
  readonly onRead: () => void;
  readonly isOpen: (ensemble: string, namespace: string) => boolean;
}

/** `default` first, the others in the order of the file. */
function membersOf(
  options: ServedOptions,
  entries: ReadonlyMap<string, EnsembleEntry>,
  { onTaken, onRead, isOpen }: Hooks,
): ReadonlyMap<string, MemberWithBacklog> {
  const configs = [
    [DEFAULT_ENSEMBLE, options.config] as const,
    ...[...entries].map(([name, entry]) => [name, configOf(options, name, entry)] as const),
  ];
  let home: StoredMap | undefined;
  const members = configs.map(([name, config]): [string, MemberWithBacklog] => {
    const logger = options.logger.child({ ensemble: name });
    const metrics = createMetrics({ version, processMetrics: false });
    const backlog = new Backlog();
    const ensemble: ServedEnsemble = new ServedEnsemble({
      ...{ ...options, config, metrics, logger, backlog },
      isOpen: (namespace) => isOpen(name, namespace),
      onRegistered: (zk) => stored.readFirst(zk),
      ...(entries.has(name) && { floorSetting: `fencingFloor of "${name}" in the file of POSTERN_ENSEMBLES` }),
    });
    const { control, layout } = ensemble.foundation.context;
    const onFault = (error: unknown): void =>
      logger.warn({ err: error }, 'reading the map of namespaces failed; retrying');
    const stored: StoredMap = new StoredMap({ name, home, control, layout, onTaken, onRead, onFault });
    home ??= stored;
    return [name, { name, ensemble, backlog, stored }];
  });
  return new Map(members);
}

/** The settings of another ensemble are those of the first, but for where it is. */
function configOf({ config, logger }: ServedOptions, name: string, entry: EnsembleEntry): Config {
  const own: Config = { ...config, ...entry };
  const [problem] = contradictions(own);
  if (problem !== undefined) throw new Error(`The ensemble "${name}" of POSTERN_ENSEMBLES: ${problem}`);
  const known = new Set(dangers(config));
  for (const danger of dangers(own)) if (!known.has(danger)) logger.warn({ ensemble: name }, danger);
  return own;
}

/** Requests are refused before their namespace is known, so only while all ensembles are late. */
function limitOf(all: readonly MemberWithBacklog[], { config, clock }: ServedOptions): ZooKeeperLimit {
  const limits = all.map(({ backlog }) => new BacklogLimit(backlog, config.overloadDelayMs, clock.monotonic()));
  return {
    get set() {
      return limits.every((limit) => limit.set);
    },
    admit: () => limits.some((limit) => limit.admit()),
    look: (now) => limits.forEach((limit) => limit.look(now)),
  };
}

/** Ready as long as one of them is; but a rolling update stops where a floor cannot be raised beside the others. */
function readinessOf(all: readonly Member[], agreement: Agreement, leaving: AbortSignal): Readiness {
  if (leaving.aborted) return (all[0] as Member).ensemble.readiness;
  const each = all.map((member) => ({ name: member.name, why: whyNot(member) }));
  const reasons = each.flatMap(({ name, why }) => why.map((reason) => `Ensemble "${name}": ${reason}`));
  if (agreement.refused !== undefined) reasons.push(`POSTERN_ENSEMBLES: ${agreement.refused}`);
  const waits = all.some(({ ensemble }) => ensemble.foundation.floor.isWaiting);
  return { ready: !waits && each.some(({ why }) => why.length === 0), reasons };
}

/** Why an ensemble is not served; empty if it is. */
function whyNot({ ensemble, stored }: Member): readonly string[] {
  const { ready, reasons } = ensemble.readiness;
  if (!ready) return reasons;
  // What is refused is judged by the map of `default`.
  if (!stored.isKnown) return [`its map of namespaces, or that of "${DEFAULT_ENSEMBLE}", has not been read yet.`];
  return stored.refused === undefined ? [] : [stored.refused];
}

function tellOf(all: readonly Member[], agreement: Agreement, { metrics }: ServedOptions): void {
  for (const member of all) {
    const { name: ensemble, stored } = member;
    member.ensemble.tell();
    metrics.ensembleReady.set({ ensemble }, whyNot(member).length === 0 ? 1 : 0);
    metrics.ensembleMapVersion.set({ ensemble }, stored.map.version);
    metrics.ensembleAgreedVersion.set({ ensemble }, agreement.agreedVersion(ensemble));
  }
}

async function toldOf(all: readonly Member[], { metrics }: ServedOptions): Promise<readonly MetricsTold[]> {
  const told = all.map(async ({ name, ensemble }) =>
    toldOfEnsemble(await ensemble.metrics.registry.getMetricsAsJSON(), name),
  );
  return [toldOfProcess(await metrics.registry.getMetricsAsJSON()), ...(await Promise.all(told))];
}

/** What changes nothing: besides what is got, what asks for nothing but `read` and has a body only to say of what. */
function reads(): ReadonlySet<string> {
  const { operations } = openApi();
  const reading = operations.filter(
    ({ method, scopes, names }) => method === 'GET' || [{ scopes }, ...names].every((need) => isRead(need.scopes)),
  );
  return new Set(reading.map(({ operationId }) => operationId));
}

function isRead(scopes: readonly Scope[]): boolean {
  return scopes.length > 0 && scopes.every((scope) => scope === 'read');
}

function readEnsembles(path: string): EnsemblesFile {
  try {
    return parseFile(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new Error(`POSTERN_ENSEMBLES is "${path}"; it must be a readable file of ensembles: ${reasonOf(error)}.`, {
      cause: error,
    });
  }
}
