/**
 * The format of the data under the root, which stands there as a number: a replica of a release that knows another
 * format takes no requests, so that old and new releases never judge the same data by different rules (protocol C47).
 *
 * Layout:  <root>/format   the number, in decimal (persistent)
 */
import { PosternError } from '../errors.js';
import type { FencingFloor } from '../leases/fencing-floor.js';
import type { Layout } from '../leases/layout.js';
import type { BoundClient } from '../zookeeper/bound.js';
import { byDeadline } from '../zookeeper/by-deadline.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason } from '../zookeeper/errors.js';
import { isOfDefaultAlone, mapPath } from './ensembles/map.js';

/** Raised by a release whose data older ones would misread. */
const FORMAT = '1';
/** Of what stands there in place of a number. */
const SHOWN_CHARACTERS = 20;

export class DataFormat {
  readonly #control: ControlSession;
  readonly #layout: Layout;
  readonly #floor: FencingFloor;
  readonly #isAlone: boolean;
  #refused: PosternError | undefined;
  #isKnown = false;
  #told!: () => void;
  readonly #known = new Promise<void>((resolve) => (this.#told = resolve));

  /** @param isAlone this replica serves this ensemble alone, and knows of no map of namespaces */
  constructor(control: ControlSession, layout: Layout, floor: FencingFloor, isAlone: boolean) {
    this.#control = control;
    this.#layout = layout;
    this.#floor = floor;
    this.#isAlone = isAlone;
  }

  /** Why nothing can be done here; undefined if something can, or if that is not known yet. */
  get refused(): PosternError | undefined {
    return this.#refused ?? this.#floor.refused;
  }

  /**
   * Reads it, and writes it where there is none: then nothing is there, or what was before formats had numbers. Then
   * settles how what is read is numbered.
   * @throws PosternError `zookeeper-unavailable` if it is another one, or as `FencingFloor.settle`
   * @throws NoReplyError
   */
  async check(deadline: number): Promise<void> {
    const found = await this.#read(deadline);
    this.#refused = found === FORMAT ? await this.#mapped(this.#control.until(deadline)) : this.#other(found);
    try {
      if (this.#refused !== undefined) throw this.#refused;
      await this.#floor.settle(deadline);
    } catch (error) {
      if (this.refused !== undefined) this.#tell();
      throw error;
    }
    this.#tell();
  }

  /**
   * To be done on each session once this process is registered, if it knows of no map: one that came into force before
   * is seen here, and none does any more without this process.
   * @throws PosternError `zookeeper-unavailable` if a map names a namespace
   * @throws NoReplyError
   */
  async readMap(zk: BoundClient): Promise<void> {
    this.#refused = await this.#mapped(zk);
    if (this.#refused !== undefined) throw this.#refused;
  }

  /**
   * To be asked by each request before it does anything.
   * @returns a promise only until it has been read
   * @throws PosternError `zookeeper-unavailable` if it is another one, or not known by `deadline` (monotonic)
   */
  admit(deadline: number): void | Promise<void> {
    if (!this.#isKnown) return byDeadline(this.#known, deadline, 'the format of the data').then(() => this.#admit());
    this.#admit();
  }

  #tell(): void {
    this.#isKnown = true;
    this.#told();
  }

  #admit(): void {
    if (this.refused !== undefined) throw this.refused;
  }

  async #read(deadline: number): Promise<string> {
    const { format } = this.#layout;
    const zk = this.#control.until(deadline);
    for (;;) {
      const node = await zk.find(format);
      if (node !== undefined) return node.data.toString();
      try {
        await zk.create(format, Buffer.from(FORMAT));
      } catch (error) {
        if (!isReason(error, 'NODE_EXISTS')) throw error;
        await zk.sync(format);
      }
    }
  }

  /** Why a replica that knows of no map must not serve: some namespace lies elsewhere, or is closed (ADR 41). */
  async #mapped(zk: BoundClient): Promise<PosternError | undefined> {
    if (!this.#isAlone) return undefined;
    const ensembles = mapPath(this.#layout.root);
    const node = await zk.find(ensembles);
    if (node === undefined || isOfDefaultAlone(node.data)) return undefined;
    return new PosternError(
      'zookeeper-unavailable',
      `Namespaces of the data under ${this.#layout.root} lie on several ensembles, or are closed (${ensembles} in ZooKeeper says which): nothing was done. Set POSTERN_ENSEMBLES.`,
    );
  }

  #other(found: string): PosternError {
    const shown = JSON.stringify(found.slice(0, SHOWN_CHARACTERS));
    return new PosternError(
      'zookeeper-unavailable',
      `The data under ${this.#layout.root} have the format ${shown}, and this release knows format ${FORMAT} only: nothing was done. Ask a replica of the release that wrote them.`,
    );
  }
}
