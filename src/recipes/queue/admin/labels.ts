/**
 * Which queues have metrics under their own names. There are fewer labels than names that callers can make up, so they
 * are shared out anew in each turn: a queue that is gone or unused takes none, and no namespace has two more than
 * another one whose queues could use them.
 */

/**
 * @param keys the queues in use: `name`, or `namespace/name`
 * @param before those that had labels; within a namespace they come first, so that series last
 */
export function shareOut(keys: readonly string[], before: readonly string[], max: number): string[] {
  const inUse = new Set(keys);
  const ordered = new Set([...before.filter((key) => inUse.has(key)), ...keys]);
  const byNamespace = new Map<string, string[]>();
  for (const key of ordered) {
    const namespace = key.slice(0, key.indexOf('/') + 1);
    const list = byNamespace.get(namespace);
    if (list === undefined) byNamespace.set(namespace, [key]);
    else list.push(key);
  }
  const most = Math.max(0, ...[...byNamespace.values()].map(({ length }) => length));
  const shared: string[] = [];
  for (let turn = 0; turn < most && shared.length < max; turn += 1)
    for (const list of byNamespace.values()) shared.push(...list.slice(turn, turn + 1));
  return shared.slice(0, max);
}
