/**
 * How a replica's file becomes the map that all replicas go by (ADR 41). The map that is stored in the ensemble
 * `default` is the one that counts; the file proposes the next one:
 *
 *  1. the file has a higher version: what it changes is checked (`#objection`), and it replaces the stored map at the
 *     version of its znode, so that of two replicas with different files one finds itself refused;
 *  2. each other ensemble whose stored map is older gets the one of `default`.
 *
 * A crash between the two leaves the second step to whoever looks next: each replica looks whenever a stored map
 * changes. A namespace moves only once it is closed at the ensemble that loses it, so in between it is served by nobody
 * for more than reading.
 */
import type { Logger } from '../../log.js';
import { createSeldom } from '../../seldom.js';
import { MINUTE, SECOND } from '../../time.js';
import { NoReplyError } from '../../zookeeper/errors.js';
import type { ServedEnsemble } from '../served-ensemble.js';
import { DEFAULT_ENSEMBLE, type EnsembleEntry, type EnsembleMap, type EnsemblesFile, type Place } from './map.js';
import type { StoredMap } from './stored-map.js';

const SETTLE_MS = 10 * SECOND;
const RETRY_MS = SECOND;
/** The same reason is logged once in this time. */
const SAID_AGAIN_MS = 10 * MINUTE;

/** One of the ensembles of this process. */
export interface Member {
  readonly name: string;
  readonly ensemble: ServedEnsemble;
  readonly stored: StoredMap;
}

export interface AgreementOptions {
  readonly members: ReadonlyMap<string, Member>;
  /** Those that this process was started with. */
  readonly entries: ReadonlyMap<string, EnsembleEntry>;
  readonly logger: Logger;
  /** Told whether the file is refused. */
  readonly onRefused: (isRefused: boolean) => void;
}

export class Agreement {
  readonly #options: AgreementOptions;
  readonly #home: Member;
  readonly #seldom = createSeldom(SAID_AGAIN_MS);
  #file: EnsemblesFile;
  /** Why the file as it is now could not be read. */
  #unreadable: string | undefined;
  #refused: string | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(file: EnsemblesFile, options: AgreementOptions) {
    this.#options = options;
    this.#file = file;
    this.#home = options.members.get(DEFAULT_ENSEMBLE) as Member;
  }

  /** Why the file does not count, in a sentence. */
  get refused(): string | undefined {
    return this.#refused;
  }

  propose(file: EnsemblesFile): void {
    this.#file = file;
    this.#unreadable = undefined;
    this.look();
  }

  /** The file has become one that cannot be used; the one before goes on. */
  unreadable(why: string): void {
    this.#unreadable = why;
    this.#refuse(why);
  }

  /** Call it whenever a stored map has been read. */
  look(): void {
    this.#again = true;
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    while (this.#again && !this.#isClosed) {
      this.#again = false;
      clearTimeout(this.#timer);
      try {
        if (await this.#settle()) continue;
      } catch (error) {
        if (!(error instanceof NoReplyError)) this.#say('the map of namespaces could not be settled', error);
      }
      // What it waits for may come without a stored map being read.
      this.#timer = setTimeout(() => this.look(), RETRY_MS).unref();
    }
  }

  /** @returns false if it is to be tried again */
  async #settle(): Promise<boolean> {
    if (!isUsable(this.#home)) return false;
    const deadline = performance.now() + SETTLE_MS;
    const { map, entries } = this.#file;
    const why = this.#unreadable ?? this.#entriesDiffer(entries) ?? (await this.#adopt(map, deadline));
    this.#refuse(why);
    let isSpread = true;
    for (const member of this.#options.members.values()) isSpread = (await this.#spread(member, deadline)) && isSpread;
    return why === undefined && isSpread;
  }

  /** @returns why the map of the file is not the one that counts */
  async #adopt(map: EnsembleMap, deadline: number): Promise<string | undefined> {
    const { stored } = this.#home;
    for (;;) {
      const before = stored.map;
      if (map.version < before.version)
        return `The file has the version ${map.version}, and version ${before.version} is in force: give this replica the newer file.`;
      if (map.version === before.version)
        return map.isSameAs(before)
          ? undefined
          : `The file has the version ${map.version}, and another file of that version is in force: give the file a higher one.`;
      const why = await this.#objection(before, map, deadline);
      if (why !== undefined) return why;
      // What was checked may have been read again meanwhile.
      if (stored.map.version !== before.version) continue;
      if (await stored.replace(map, deadline)) {
        this.#options.logger.info({ version: map.version, namespaces: map.named.length }, 'map of namespaces in force');
        return undefined;
      }
    }
  }

  /** What keeps the first of the namespaces that would move from moving. */
  async #objection(before: EnsembleMap, after: EnsembleMap, deadline: number): Promise<string | undefined> {
    for (const namespace of new Set([...before.named, ...after.named])) {
      const [from, to] = [before.placeOf(namespace), after.placeOf(namespace)];
      if (from.ensemble === to.ensemble) continue;
      const why = await this.#keptFromMoving(namespace, from, to, deadline);
      if (why !== undefined) return `The namespace "${namespace}" does not move to "${to.ensemble}": ${why}`;
    }
    return undefined;
  }

  async #keptFromMoving(namespace: string, from: Place, to: Place, deadline: number): Promise<string | undefined> {
    const [loses, gains] = [from, to].map(({ ensemble }) => this.#options.members.get(ensemble));
    if (loses === undefined || gains === undefined)
      return `this replica does not know the ensemble "${loses === undefined ? from.ensemble : to.ensemble}".`;
    for (const member of [loses, gains]) if (!isUsable(member)) return `the ensemble "${member.name}" is not ready.`;
    const { control, layout } = loses.ensemble.foundation.context;
    const zk = control.until(deadline);
    // Nobody has used it yet: there is nothing to move.
    if ((await zk.fresh(() => zk.exists(layout.namespace(namespace)))) === undefined) return undefined;
    await loses.stored.refresh(deadline);
    if (!loses.stored.map.placeOf(namespace).closed)
      return `it is in use and not closed; a version of the file must close it at "${from.ensemble}" before.`;
    const there = gains.ensemble.foundation.context.control;
    await there.until(deadline).fresh(() => Promise.resolve());
    if (there.lastZxid > control.lastZxid) return undefined;
    return `fencing tokens there are lower than they were at "${from.ensemble}"; its floor must be ${control.lastZxid} at least (fencingFloor).`;
  }

  /** @returns false if it is to be tried again */
  async #spread(member: Member, deadline: number): Promise<boolean> {
    const { name, stored } = member;
    const { map } = this.#home.stored;
    if (!isUsable(member)) return false;
    if (stored.map.version === map.version) return true;
    if (stored.map.version < map.version) return stored.replace(map, deadline);
    this.#say(`the map of namespaces stored in "${name}" is newer than that in "${DEFAULT_ENSEMBLE}"`);
    return false;
  }

  #entriesDiffer(entries: ReadonlyMap<string, EnsembleEntry>): string | undefined {
    const { entries: own } = this.#options;
    const names = new Set([...own.keys(), ...entries.keys()]);
    for (const name of names)
      if (
        own.get(name)?.zookeeper !== entries.get(name)?.zookeeper ||
        own.get(name)?.fencingFloor !== entries.get(name)?.fencingFloor
      )
        return `The file says something else about the ensemble "${name}" than when this replica was started: start it again.`;
    return undefined;
  }

  #refuse(why: string | undefined): void {
    if (why !== undefined) this.#say(`the file of ensembles is refused: ${why}`);
    this.#refused = why;
    this.#options.onRefused(why !== undefined);
  }

  #say(message: string, error?: unknown): void {
    if (this.#seldom(message)) this.#options.logger.error(error === undefined ? {} : { err: error }, message);
  }
}

/** Whether its map has been read and may be written. */
function isUsable({ ensemble, stored }: Member): boolean {
  return ensemble.readiness.ready && stored.isKnown && stored.refused === undefined;
}
