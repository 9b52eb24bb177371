/** What a client needs to go on with a session of ZooKeeper, from any connection. */
export interface SessionIdentity {
  id: Buffer;
  password: Buffer;
}

/**
 * A copy to be kept for as long as a lease lives, one behind the other. It is not of the pool, of which a few bytes would keep eight KiB; and a piece of memory
 * for each part takes more than is in it.
 */
export function kept(...parts: readonly Buffer[]): Buffer {
  const copy = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) at += part.copy(copy, at);
  return copy;
}

export function identityOf(id: Buffer, password: Buffer): SessionIdentity {
  const both = kept(id, password);
  return { id: both.subarray(0, id.length), password: both.subarray(id.length) };
}
