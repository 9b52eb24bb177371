/**
 * Divides numbered parts among members: a pure function of the members and of the previous division.
 *
 * - Every part has exactly one owner, if there is any member.
 * - Shares differ by at most one part.
 * - No other division with that property moves fewer parts. When one of n members leaves, only its own parts move, at
 *   most 1/n of all, rounded up; when an n-th member joins, exactly the parts that it gets move, 1/n of all, rounded
 *   down.
 */

/** For each part, by its number, the member that owns it; undefined where it has no owner. */
export type Owners = readonly (string | undefined)[];

/**
 * @param members in any order
 * @param before shorter or empty where there was nothing before; owners that are no members any more count as none
 */
export function divide(of: number, members: readonly string[], before: Owners): Owners {
  if (members.length === 0) return Array.from({ length: of }, () => undefined);
  const kept = new Map<string, number[]>([...members].sort().map((member) => [member, []]));
  const free: number[] = [];
  for (let part = 0; part < of; part += 1) {
    const owner = before[part];
    const own = owner === undefined ? undefined : kept.get(owner);
    if (own === undefined) free.push(part);
    else own.push(part);
  }
  // Whoever has most already gets what does not divide evenly: that moves least.
  const shares = [...kept].sort(([, a], [, b]) => b.length - a.length);
  const least = Math.floor(of / members.length);
  const onesMore = of % members.length;
  const quota = (rank: number): number => least + (rank < onesMore ? 1 : 0);
  for (const [rank, [, own]] of shares.entries()) free.push(...own.splice(quota(rank)));
  free.sort((a, b) => a - b);
  const owners = new Array<string | undefined>(of);
  for (const [rank, [member, own]] of shares.entries()) {
    for (const part of own) owners[part] = member;
    for (const part of free.splice(0, quota(rank) - own.length)) owners[part] = member;
  }
  return owners;
}
