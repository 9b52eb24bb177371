/** All that a client needs to continue a ZooKeeper session from any connection. */
export interface SessionIdentity {
  id: Buffer;
  password: Buffer;
}

/**
 * A copy to keep for the life of a lease, with the parts in one block. It is not from Node's pool, of which a few bytes
 * would keep eight KiB alive; and a block for each part would take more than its content.
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
