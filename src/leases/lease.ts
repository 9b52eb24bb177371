/**
 * A lease, as recipes see it: one client's right to hold things for as long as it sends heartbeats.
 *
 * A lease *is* a ZooKeeper session. The replica keeps nothing about it; all of this comes from the token.
 */
import { createHmac } from 'node:crypto';
import type { SessionIdentity } from '../zookeeper/connection/session-identity.js';
import type { LeaseGrant } from './lease-token.js';

const LEASE_ID_BYTES = 16;

export class Lease {
  /** Public: keyed with the lease's secret, so it reveals nothing about the session. */
  readonly leaseId: string;
  readonly grant: LeaseGrant;
  /** The last guid: most clients take the same thing again and again. */
  #last:
    { readonly kind: string; readonly name: string; readonly requestId: string; readonly guid: string } | undefined;

  constructor(grant: LeaseGrant) {
    this.grant = grant;
    this.leaseId = keyed(grant.secret, ['lease']).subarray(0, LEASE_ID_BYTES).toString('hex');
  }

  get ttlMs(): number {
    return this.grant.ttlMs;
  }

  get namespace(): string {
    return this.grant.namespace;
  }

  get principal(): string {
    return this.grant.principal;
  }

  get label(): string {
    return this.grant.label;
  }

  get identity(): SessionIdentity {
    return { id: this.grant.sessionId, password: this.grant.sessionPassword };
  }

  /** Which server of the ensemble the lease's connections prefer; the same in every replica (protocol C5). */
  get affinity(): number {
    return affinityOf(this.grant.secret);
  }

  get sessionId(): bigint {
    return this.grant.sessionId.readBigInt64BE(0);
  }

  /**
   * The name of this lease's place in a line. Derived rather than random, so that a repeated request finds what the
   * first one did; keyed, so that no other lease can compute it (protocol C9).
   */
  guid(kind: string, name: string, requestId: string): string {
    const last = this.#last;
    if (last?.name === name && last.requestId === requestId && last.kind === kind) return last.guid;
    const guid = uuid(keyed(this.grant.secret, [kind, this.namespace, name, requestId]));
    this.#last = { kind, name, requestId, guid };
    return guid;
  }
}

export function affinityOf(secret: Buffer): number {
  return secret.readUInt16BE(0);
}

/**
 * The guid of a place that is acquired together with its lease. The client has no token yet that could key it, so it is
 * derived from the caller and the request.
 */
export function requestGuid(
  principal: string,
  namespace: string,
  kind: string,
  name: string,
  requestId: string,
): string {
  return uuid(keyed(Buffer.from('postern one-call acquire'), [principal, namespace, kind, name, requestId]));
}

function keyed(key: Buffer, parts: readonly string[]): Buffer {
  // JSON keeps the parts apart whatever characters they contain.
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest();
}

/** As a UUID of version 8 (custom), the form in Curator's names. */
function uuid(bytes: Buffer): string {
  const hex = Buffer.from(bytes.subarray(0, 16));
  hex.writeUInt8((hex.readUInt8(6) & 0x0f) | 0x80, 6);
  hex.writeUInt8((hex.readUInt8(8) & 0x3f) | 0x80, 8);
  const text = hex.toString('hex');
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`;
}
