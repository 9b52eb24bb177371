/**
 * How a replica's file becomes the map that all replicas go by (ADR 41). The map that is stored in the ensemble
 * `default` is the one that counts; the file proposes the next one:
 *
 *  1. the file has a higher version: what it changes is checked (`moving.ts`), and it replaces the stored map at the
 *     version of its znode, so that of two replicas with different files one finds itself refused;
 *  2. each other ensemble whose stored map is older gets the one of `default`.
 *
 * Then each process tells the others at each ensemble by which version it serves there (`#agree`): a namespace leaves
 * only once all of them have heard that it is closed, so that none of them acknowledges a write there any more. None at
 * all leaves where a process has told nothing: it was not given the file, and would go on.
 *
 * Before all that, an ensemble whose name is new gets an id, first there and then in `default` (`#identify`): of two
 * replicas that reach different ensembles under one name, one finds itself refused. What has no id in `default`, or
 * another one, gets no map.
 *
 * A crash between two steps leaves the later one to whoever looks next: each replica looks whenever a stored map
 * changes. A namespace moves only once it is closed at the ensemble that loses it, so in between it is served by nobody
 * for more than reading.
 */
import { randomBytes } from 'node:crypto';
import { PosternError } from '../../errors.js';
import type { Logger } from '../../log.js';
import { createSeldom } from '../../seldom.js';
import { MINUTE, SECOND } from '../../time.js';
import { NoReplyError } from '../../zookeeper/errors.js';
import { DEFAULT_ENSEMBLE, type EnsembleEntry, type EnsembleMap, type EnsemblesFile } from './map.js';
import { isUsable, type Member } from './member.js';
import { Moving } from './moving.js';

const SETTLE_MS = 10 * SECOND;
const RETRY_MS = SECOND;
/** A start, and a file that others have read already, refuse for less: nobody need look into that. */
const REFUSED_FOR_MS = 5 * SECOND;
/** The same reason is logged once in this time. */
const SAID_AGAIN_MS = 10 * MINUTE;

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
  readonly #moving: Moving;
  readonly #seldom = createSeldom(SAID_AGAIN_MS);
  readonly #agreed = new Map<string, number>();
  #file: EnsemblesFile;
  /** Why the file as it is now could not be read. */
  #unreadable: string | undefined;
  #refused: string | undefined;
  /** Since when this file is, monotonic. */
  #refusedAt = performance.now();
  #running: Promise<void> | undefined;
  #again = false;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(file: EnsemblesFile, options: AgreementOptions) {
    this.#options = options;
    this.#file = file;
    this.#home = options.members.get(DEFAULT_ENSEMBLE) as Member;
    this.#moving = new Moving(options.members);
  }

  /** Why the file does not count, in a sentence. */
  get refused(): string | undefined {
    return this.#refused;
  }

  /** The version by which, or by a later one, all processes serve an ensemble; 0 if that is not known. */
  agreedVersion(ensemble: string): number {
    return this.#agreed.get(ensemble) ?? 0;
  }

  propose(file: EnsemblesFile): void {
    this.#file = file;
    this.#unreadable = undefined;
    this.#refusedAt = performance.now();
    this.look();
  }

  /** The file has become one that cannot be used; the one before goes on. */
  unreadable(why: string): void {
    this.#unreadable = why;
    this.#refuse(why);
    // What is settled at this moment would say of the file before that it is in force.
    this.look();
  }

  /** Call it whenever a stored map has been read. */
  look(): void {
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#again && !this.#isClosed) this.look();
    });
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
        this.#say('the map of namespaces could not be settled', error);
      }
      // What it waits for may come without a stored map being read.
      this.#timer = setTimeout(() => this.look(), RETRY_MS).unref();
    }
  }

  /** @returns false if it is to be tried again */
  async #settle(): Promise<boolean> {
    if (!isUsable(this.#home)) return false;
    await this.#beginHome(performance.now() + SETTLE_MS);
    // Each of them even if one before does not answer; a namespace leaves only where the map in force is stored.
    await this.#each((member, deadline) => this.#identify(member, deadline));
    await this.#catchUp(performance.now() + SETTLE_MS);
    await this.#each((member, deadline) => this.#spread(member, deadline));
    // Before it is asked who has told nothing.
    await this.#each((member, deadline) => this.#tell(member, deadline));
    const { map, entries } = this.#file;
    const why = this.#unreadable ?? this.#entriesDiffer(entries) ?? (await this.#adoptInTime(map));
    this.#refuse(why);
    const isSpread = await this.#each((member, deadline) => this.#spread(member, deadline));
    const isAgreed = await this.#each((member, deadline) => this.#agree(member, deadline));
    return why === undefined && isSpread && isAgreed;
  }

  /** @returns whether the step was done for all; false if it is to be tried again */
  async #each(step: (member: Member, deadline: number) => Promise<boolean>): Promise<boolean> {
    let isDone = true;
    for (const member of this.#options.members.values())
      try {
        if (!(await step(member, performance.now() + SETTLE_MS))) isDone = false;
      } catch (error) {
        if (!(error instanceof NoReplyError)) throw error;
        isDone = false;
      }
    return isDone;
  }

  /** As `#adopt`; what does not answer in time, or fits into no transaction, refuses the file as well. */
  async #adoptInTime(map: EnsembleMap): Promise<string | undefined> {
    try {
      return await this.#adopt(map, performance.now() + SETTLE_MS);
    } catch (error) {
      if (error instanceof PosternError && error.code === 'too-large')
        return `It moves too many namespaces at once (${error.message}): name some of them in a later version.`;
      if (!(error instanceof NoReplyError)) throw error;
      return `It could not be checked within ${SETTLE_MS / SECOND} s; this is tried again.`;
    }
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
      const checks = await this.#home.ensemble.foundation.floor.unlessOthersCome(deadline);
      const stillUnused = await this.#moving.check(before, map, deadline);
      if (typeof stillUnused === 'string') return stillUnused;
      // What was checked may have been read again meanwhile.
      if (stored.map.version !== before.version) continue;
      if (await stored.replace(map, deadline, [...checks, ...stillUnused])) {
        this.#options.logger.info({ version: map.version, namespaces: map.named.length }, 'map of namespaces in force');
        return undefined;
      }
    }
  }

  /** Says what `default` is before another one gets an id, which may be the same one by a wrong address. */
  async #beginHome(deadline: number): Promise<void> {
    const { stored } = this.#home;
    if (!stored.isStored) await stored.replace(stored.map, deadline);
  }

  /** `default` has been set back, by a restore: the newest map that the others have is in force. */
  async #catchUp(deadline: number): Promise<void> {
    const { stored } = this.#home;
    const isNewer = (member: Member): boolean => isUsable(member) && member.stored.map.version > stored.map.version;
    for (const member of this.#options.members.values()) {
      // What another replica has just put in force here and there may have been heard of from there first.
      if (isNewer(member)) await stored.refresh(deadline);
      if (isNewer(member)) {
        this.#say(
          `the map of namespaces in "${DEFAULT_ENSEMBLE}" is older than that in "${member.name}", which is taken`,
        );
        await stored.replace(member.stored.map, deadline);
      }
    }
  }

  /** @returns whether all processes serve this ensemble by the version by which this one does */
  async #agree(member: Member, deadline: number): Promise<boolean> {
    const { name, ensemble, stored } = member;
    const { version } = stored.map;
    if (!(await this.#tell(member, deadline))) return false;
    const told = await ensemble.foundation.floor.told(deadline);
    const agreed = Math.min(...told.map(({ what }) => Number(what)));
    this.#agreed.set(name, agreed);
    return agreed >= version;
  }

  /** @returns false if it is to be tried again */
  async #tell(member: Member, deadline: number): Promise<boolean> {
    const { ensemble, stored } = member;
    return isUsable(member) && ensemble.foundation.floor.tell(String(stored.map.version), deadline);
  }

  /**
   * Gives an ensemble an id if `default` has none by its name: first there, so that one that has none, or another one,
   * than `default` says is not the one of this name.
   * @returns false if it is to be tried again
   */
  async #identify({ name, ensemble, stored }: Member, deadline: number): Promise<boolean> {
    const home = this.#home.stored;
    if (name === DEFAULT_ENSEMBLE || home.idOf(name) !== undefined) return true;
    if (!ensemble.readiness.ready || !stored.isKnown || stored.unusable !== undefined) return false;
    // If another replica was first, what it wrote has been read.
    if (stored.idOf(name) === undefined) await stored.identify(name, randomBytes(16).toString('hex'), deadline);
    const id = stored.idOf(name);
    if (id === undefined || stored.unusable !== undefined || home.unusable !== undefined) return false;
    return home.idOf(name) !== undefined || home.identify(name, id, deadline);
  }

  /** @returns false if it is to be tried again */
  async #spread(member: Member, deadline: number): Promise<boolean> {
    const { stored } = member;
    const { map } = this.#home.stored;
    if (!isUsable(member)) return false;
    if (stored.map.version < map.version) return stored.replace(map, deadline);
    return stored.map.version === map.version;
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
    if (this.#refused === undefined) this.#refusedAt = performance.now();
    if (why !== undefined) {
      const message = `the file of ensembles is refused: ${why}`;
      if (performance.now() - this.#refusedAt >= REFUSED_FOR_MS) this.#say(message);
      else if (why !== this.#refused) this.#options.logger.info(message);
    }
    this.#refused = why;
    this.#options.onRefused(why !== undefined);
  }

  #say(message: string, error?: unknown): void {
    if (this.#seldom(message)) this.#options.logger.error(error === undefined ? {} : { err: error }, message);
  }
}
