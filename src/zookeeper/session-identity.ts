/** What a client needs to go on with a session of ZooKeeper, from any connection. */
export interface SessionIdentity {
  id: Buffer;
  password: Buffer;
}

/**
 * A copy to be kept. Both lie in one piece of memory that is not of the pool: a few bytes of that would keep eight KiB as long as a lease lives, and a
 * piece for each takes more than is in it.
 */
export function identityOf(id: Buffer, password: Buffer): SessionIdentity {
  const both = Buffer.allocUnsafeSlow(id.length + password.length);
  id.copy(both);
  password.copy(both, id.length);
  return { id: both.subarray(0, id.length), password: both.subarray(id.length) };
}
