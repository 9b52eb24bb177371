/** Which namespaces a new map moves, and what keeps them from moving (ADR 41). */
import type { Told } from '../../leases/fencing-floor.js';
import { isLeaseAlive } from '../../leases/lease-life.js';
import { replicasOf } from '../../leases/replicas.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { DEFAULT_ENSEMBLE, type EnsembleMap, type Place } from './map.js';
import { isUsable, type Member } from './member.js';

/** Each takes a few requests, one after the other. */
const CHECKED_AT_ONCE = 32;

/** Of a namespace, from where the map in force, of this version, says that it lies. */
interface Move {
  readonly namespace: string;
  readonly from: Place;
  readonly to: Place;
  readonly version: number;
}

/** What is to be written together with the map, so that no namespace that nobody had used is used by then. */
type StillUnused = readonly MultiOperation[];

/** What all processes have told at an ensemble; asked once for all moves. */
type AskTold = (member: Member) => Promise<readonly Told[]>;

export class Moving {
  readonly #members: ReadonlyMap<string, Member>;

  constructor(members: ReadonlyMap<string, Member>) {
    this.#members = members;
  }

  /** @returns what keeps the first of the namespaces that would move from moving; otherwise what to write as well */
  async check(before: EnsembleMap, after: EnsembleMap, deadline: number): Promise<string | StillUnused> {
    const moves = [...new Set([...before.named, ...after.named])]
      .map((namespace): Move => {
        const [from, to] = [before.placeOf(namespace), after.placeOf(namespace)];
        return { namespace, from, to, version: before.version };
      })
      .filter(({ from, to }) => from.ensemble !== to.ensemble);
    const told = new Map<Member, Promise<readonly Told[]>>();
    const askTold: AskTold = (member) => {
      const asked = told.get(member) ?? member.ensemble.foundation.floor.told(deadline);
      told.set(member, asked);
      return asked;
    };
    const unused: Move[] = [];
    for (let i = 0; i < moves.length; i += CHECKED_AT_ONCE) {
      const checked = moves.slice(i, i + CHECKED_AT_ONCE).map(async (move) => {
        const why = await this.#keptFromMoving(move, askTold, () => unused.push(move), deadline);
        if (why === undefined) return undefined;
        return `The namespace "${move.namespace}" does not move to "${move.to.ensemble}": ${why}`;
      });
      const why = (await Promise.all(checked)).find((one) => one !== undefined);
      if (why !== undefined) return why;
    }
    return this.#stillUnused(unused, deadline);
  }

  /** Those of `default`: only there is the map that counts written. */
  async #stillUnused(moves: readonly Move[], deadline: number): Promise<StillUnused> {
    const { control, layout } = (this.#members.get(DEFAULT_ENSEMBLE) as Member).ensemble.foundation.context;
    const paths = moves
      .filter(({ from }) => from.ensemble === DEFAULT_ENSEMBLE)
      .map(({ namespace }) => layout.namespace(namespace));
    if (paths.length > 0) await control.until(deadline).ensure(layout.namespaces);
    return paths.flatMap((path): MultiOperation[] => [
      { type: 'create', path },
      { type: 'delete', path },
    ]);
  }

  async #keptFromMoving(
    { namespace, from, to, version }: Move,
    askTold: AskTold,
    onUnused: () => void,
    deadline: number,
  ): Promise<string | undefined> {
    const [loses, gains] = [from, to].map(({ ensemble }) => this.#members.get(ensemble));
    if (loses === undefined || gains === undefined)
      return `this replica does not know the ensemble "${loses === undefined ? from.ensemble : to.ensemble}".`;
    for (const member of [loses, gains]) if (!isUsable(member)) return `the ensemble "${member.name}" is not ready.`;
    const { control, layout } = loses.ensemble.foundation.context;
    const zk = control.until(deadline);
    await loses.stored.refresh(deadline);
    const there = loses.stored.map.placeOf(namespace);
    if (!isUsable(loses) || loses.stored.map.version !== version || there.ensemble !== from.ensemble)
      return `the map in force is not stored in "${from.ensemble}" yet; this is tried again.`;
    const told = await askTold(loses);
    const unaware = told.filter(({ what }) => what === '');
    if (unaware.length > 0)
      return `${unaware.length} of ${told.length} processes that serve "${from.ensemble}" know of no map, or have not told yet (${await replicasOf(zk, layout, unaware)}): give them POSTERN_ENSEMBLES, or stop them.`;
    // Nobody has used it yet: there is nothing to move.
    if ((await zk.fresh(() => zk.exists(layout.namespace(namespace)))) === undefined) {
      onUnused();
      return this.#keptUnused(namespace, loses, gains, deadline);
    }
    if (!there.closed)
      return `it is in use and not closed; a version of the file must close it at "${from.ensemble}" before.`;
    const late = told.filter(({ what }) => Number(what) < version).length;
    if (late > 0)
      return `${late} of ${told.length} processes that serve "${from.ensemble}" have not heard of version ${version} yet (postern_ensemble_agreed_version).`;
    if (await isLeaseAlive(zk, layout, namespace)) return `leases live in it at "${from.ensemble}".`;
    return this.#keptFromComing(namespace, { from: from.ensemble, above: control.lastZxid }, gains, deadline);
  }

  /** A floor says that tokens of before it are below: where it was made anew, nothing else tells that it was used. */
  #keptUnused(namespace: string, loses: Member, gains: Member, deadline: number): Promise<string | undefined> {
    const above = loses.ensemble.foundation.floor.present;
    return above === 0
      ? this.#leftAt(gains, namespace, deadline)
      : this.#keptFromComing(namespace, { from: loses.name, above }, gains, deadline);
  }

  /** @param origin `above`: how high its fencing tokens may be where it comes from */
  async #keptFromComing(
    namespace: string,
    origin: { readonly from: string; readonly above: number },
    gains: Member,
    deadline: number,
  ): Promise<string | undefined> {
    const { from, above } = origin;
    const { context, floor } = gains.ensemble.foundation;
    await context.control.until(deadline).fresh(() => Promise.resolve());
    if (context.control.lastZxid > above)
      return (await this.#leftAt(gains, namespace, deadline)) ?? this.#begin(gains, namespace, deadline);
    return `fencing tokens there are lower than they may have been at "${from}"; set ${floor.setting} to ${above} at least.`;
  }

  /** A namespace does not come to where it lay before, and has left what it had. */
  async #leftAt({ name, ensemble }: Member, namespace: string, deadline: number): Promise<string | undefined> {
    const { control, layout } = ensemble.foundation.context;
    const zk = control.until(deadline);
    const paths = [layout.namespace(namespace), layout.schedulesOf(namespace), layout.reservationsOf(namespace)];
    const stats = await zk.fresh(() => Promise.all(paths.map((path) => zk.exists(path))));
    const left = paths.find((_, i) => (stats[i]?.numChildren ?? 0) > 0);
    return left === undefined
      ? undefined
      : `"${name}" has data of it from before, which would be served again: remove ${left} in ZooKeeper there first.`;
  }

  /** What has moved counts as used where it comes to, also if nothing is brought there: it moves on as it came. */
  async #begin({ ensemble }: Member, namespace: string, deadline: number): Promise<undefined> {
    const { control, layout } = ensemble.foundation.context;
    await control.until(deadline).ensure(layout.namespace(namespace));
  }
}
