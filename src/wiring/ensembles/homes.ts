/** Which ensemble serves a request (ADR 41). */
import { PosternError } from '../../errors.js';
import type { Exchange } from '../../http/frame/exchange.js';
import type { Asked, Home, Homes } from '../../http/routes/choice.js';
import { isTransient } from '../../zookeeper/errors.js';
import { DEFAULT_ENSEMBLE, type EnsembleMap, type Place } from './map.js';
import type { Member } from './member.js';

/** A member with its routes. */
export interface HomeOptions extends Member, Home {}

/** A request that is being done. */
interface UnderWay {
  readonly namespace: string;
  readonly isRead: boolean;
  readonly home: Home;
  withdraw(why: PosternError): void;
}

export class EnsembleHomes implements Homes {
  readonly first: Home;
  readonly #homes: ReadonlyMap<string, HomeOptions>;
  readonly #proposed: () => EnsembleMap;
  readonly #underWay = new Set<UnderWay>();

  /** @param proposed the map of the file, for the time in which no stored one is known */
  constructor(homes: readonly HomeOptions[], proposed: () => EnsembleMap) {
    this.first = homes[0] as Home;
    this.#homes = new Map(homes.map((home) => [home.name, home]));
    this.#proposed = proposed;
  }

  async homeOf({ namespace, isRead }: Asked, deadline: number): Promise<Home> {
    const { stored, ensemble } = this.#homeOf(namespace);
    if (!stored.isKnown) {
      await ensemble.foundation.format.admit(deadline);
      await stored.untilKnown(deadline);
    }
    return this.#servedAt(namespace, isRead);
  }

  async serve<T>(exchange: Exchange, asked: Asked, work: (home: Home) => Promise<T>): Promise<T> {
    const { namespace, isRead } = asked;
    const home = await this.homeOf(asked, exchange.deadline);
    let withdraw!: (why: Error) => void;
    const withdrawn = new Promise<never>((_resolve, reject) => (withdraw = reject));
    const one: UnderWay = {
      ...{ namespace, isRead, home },
      withdraw(why) {
        const refusal = isRead ? why : perhapsDone(namespace);
        exchange.withdraw(refusal);
        withdraw(refusal);
      },
    };
    this.#underWay.add(one);
    try {
      return await Promise.race([work(home), withdrawn]);
    } finally {
      this.#underWay.delete(one);
    }
  }

  /**
   * A namespace that is served elsewhere by now was closed here before, and this process had heard of that. The map by
   * which it left was stored in `default` before anybody served it: as long as that one is not there, the answer is as
   * new as any. Where it is, `review` withdraws the request. Namespaces that are not closed pay nothing.
   */
  async confirmRead(namespace: string, deadline: number): Promise<void> {
    if (!this.#homeOf(namespace).stored.map.placeOf(namespace).closed) return;
    await this.#homes.get(DEFAULT_ENSEMBLE)?.stored.refresh(deadline);
  }

  /**
   * Call it when a stored map has been read: what is under way where its namespace is not served any more is answered
   * at once, and nothing that it still does is acknowledged.
   */
  review(): void {
    for (const one of this.#underWay) {
      try {
        if (this.#servedAt(one.namespace, one.isRead) === one.home) continue;
        one.withdraw(notServed(one.namespace, 'it has moved; the request can be repeated.'));
      } catch (error) {
        one.withdraw(error as PosternError);
      }
    }
  }

  /** Where the newest map says that it lies. @throws PosternError `zookeeper-unavailable` */
  #homeOf(namespace: string): HomeOptions {
    const { ensemble } = this.#placeOf(namespace);
    const home = this.#homes.get(ensemble);
    if (home !== undefined) return home;
    throw notServed(namespace, `it lies on the ensemble "${ensemble}", which this replica does not know.`);
  }

  /** The same, if it is served there as well. @throws PosternError `zookeeper-unavailable` */
  #servedAt(namespace: string, isRead: boolean): HomeOptions {
    const home = this.#homeOf(namespace);
    const { name, stored } = home;
    if (stored.refused !== undefined) throw notServed(namespace, stored.refused);
    const there = stored.map.placeOf(namespace);
    if (there.ensemble !== name)
      throw notServed(namespace, `it is about to move, and "${name}" does not have it yet, or not any more.`);
    if (!isRead && (there.closed || this.#placeOf(namespace).closed))
      throw notServed(namespace, 'it is closed, for instance to be moved; reads without a lease are answered.');
    return home;
  }

  /** For what happens without a request: whether the ensemble of this name may do it. */
  isOpen(ensemble: string, namespace: string): boolean {
    const { stored } = this.#homes.get(ensemble) as HomeOptions;
    if (!stored.isTrusted) return false;
    return [this.#placeOf(namespace), stored.map.placeOf(namespace)].every(
      (place) => place.ensemble === ensemble && !place.closed,
    );
  }

  likelyHomeOf(namespace: string): Home | undefined {
    return this.#homes.get(this.#placeOf(namespace).ensemble);
  }

  namespaceKnown(token: string): string | undefined {
    for (const { context } of this.#homes.values()) {
      const namespace = context.leases.namespaceKnown(token);
      if (namespace !== undefined) return namespace;
    }
    return undefined;
  }

  async namespaceOf(token: string, principal: string, deadline: number): Promise<string> {
    const caller = { principal, namespace: undefined };
    const all = [...this.#homes.values()].map(({ context }) => context.leases);
    for (const leases of all) {
      const opened = leases.openKnown(token, caller);
      if (opened !== undefined) return opened.lease.namespace;
    }
    // Those that ask nobody come first; of the others, one that is away holds up no token of another.
    const asking = all.filter(({ isKeyKnown }) => !isKeyKnown);
    for (const leases of all.filter(({ isKeyKnown }) => isKeyKnown)) {
      const opened = await leases.openIfOwn(token, caller, deadline);
      if (opened !== undefined) return opened.lease.namespace;
    }
    const opened = await firstKnown(asking.map((leases) => leases.openIfOwn(token, caller, deadline)));
    // One that opens nowhere is refused in the words of any of them.
    return (opened ?? (await this.first.context.leases.open(token, caller, deadline))).lease.namespace;
  }

  /**
   * As the newest map says of which this replica knows. An ensemble whose map it has not read may have a newer one if
   * `default` does not know that ensemble, or if the file is newer than all that is known: what is known may have been
   * made anew, or set back, and what the file puts there is not taken for its own.
   */
  #placeOf(namespace: string): Place {
    let newest: EnsembleMap | undefined;
    for (const { stored } of this.#homes.values())
      if (stored.isTrusted && (newest === undefined || stored.map.version > newest.version)) newest = stored.map;
    const file = this.#proposed();
    const proposed = file.placeOf(namespace);
    if (newest === undefined) return proposed;
    const place = newest.placeOf(namespace);
    const other = this.#homes.get(proposed.ensemble)?.stored;
    if (other === undefined || proposed.ensemble === place.ensemble) return place;
    const isUnknown =
      place.ensemble === DEFAULT_ENSEMBLE &&
      this.#homes.get(DEFAULT_ENSEMBLE)?.stored.idOf(proposed.ensemble) === undefined;
    return isUnknown || (file.version > newest.version && !other.isTrusted) ? proposed : place;
  }
}

/**
 * The first answer that is one, or that refuses; undefined if all say that there is none.
 * @throws the refusal, or what one of them failed with that might have had the answer
 */
function firstKnown<T>(asked: readonly Promise<T | undefined>[]): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    let failed: Error | undefined;
    const each = asked.map((asking) =>
      asking.then(
        (answer) => {
          if (answer !== undefined) resolve(answer);
        },
        (error: Error) => {
          if (isTransient(error)) failed ??= error;
          else reject(error);
        },
      ),
    );
    void Promise.all(each).then(() => (failed === undefined ? resolve(undefined) : reject(failed)));
  });
}

/** Whatever the reason, the write may have been done before. */
function perhapsDone(namespace: string): PosternError {
  const sentence = `The namespace "${namespace}" was closed, or ceased to be served here, while this was under way: it may have been done.`;
  return new PosternError('outcome-unknown', sentence, { members: { namespace } });
}

function notServed(namespace: string, why: string): PosternError {
  return new PosternError('zookeeper-unavailable', `Nothing was done in the namespace "${namespace}": ${why}`, {
    members: { namespace },
  });
}
