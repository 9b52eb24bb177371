/**
 * The public name of one claim: which delivery of which message of which incarnation of the queue, for which lease.
 *
 * It is bound to the lease by a keyed hash, so nobody else can acknowledge with it; and to the version of the delivery
 * record that the claim wrote, so it names no later claim of the same message (protocol C20).
 */
import type { Lease } from '../../../leases/lease.js';
import type { MessagePlace } from '../paths.js';

export interface Claim extends MessagePlace {
  queueId: string;
  /** The version that the claim gave the delivery record. */
  version: number;
  /** As it was claimed: until when at most, epoch ms on the ensemble's clock; 0: as long as the lease lives. */
  until: number;
}

const QUEUE_ID_BYTES = 8;
const PLACE_BYTES = 2 + 4 + 4 + 4 + 6;
const MAC_BYTES = 12;
const EXPIRY_BYTES = 6;
const GROUP_BYTES = 8;
const PLAIN_BYTES = QUEUE_ID_BYTES + PLACE_BYTES;
/** Of a message that neither expires nor has a group; the others say it behind that, and tell by their length. */
const CLAIM_BYTES = PLAIN_BYTES + MAC_BYTES;

export function encodeClaimId(lease: Lease, claim: Claim): string {
  const { expiresAt, group } = claim;
  const expiryBytes = expiresAt === undefined ? 0 : EXPIRY_BYTES;
  const bytes = Buffer.alloc(CLAIM_BYTES + expiryBytes + (group === undefined ? 0 : GROUP_BYTES));
  bytes.write(claim.queueId, 0, QUEUE_ID_BYTES, 'hex');
  bytes.writeUInt16BE(claim.priority, 8);
  bytes.writeUInt32BE(claim.segment, 10);
  bytes.writeInt32BE(claim.sequence, 14);
  bytes.writeInt32BE(claim.version, 18);
  bytes.writeUIntBE(claim.until, 22, 6);
  if (expiresAt !== undefined) bytes.writeUIntBE(expiresAt, PLAIN_BYTES, EXPIRY_BYTES);
  if (group !== undefined) bytes.write(group, PLAIN_BYTES + expiryBytes, GROUP_BYTES, 'hex');
  seal(lease, bytes).copy(bytes, bytes.length - MAC_BYTES);
  return bytes.toString('base64url');
}

/** @returns undefined when it is none of this lease's */
export function decodeClaimId(lease: Lease, claimId: string): Claim | undefined {
  const bytes = Buffer.from(claimId, 'base64url');
  const more = bytes.length - CLAIM_BYTES;
  const expires = more === EXPIRY_BYTES || more === EXPIRY_BYTES + GROUP_BYTES;
  const isGrouped = more === GROUP_BYTES || more === EXPIRY_BYTES + GROUP_BYTES;
  if ((more !== 0 && !expires && !isGrouped) || bytes.toString('base64url') !== claimId) return undefined;
  if (!seal(lease, bytes).equals(bytes.subarray(bytes.length - MAC_BYTES))) return undefined;
  return {
    queueId: bytes.toString('hex', 0, QUEUE_ID_BYTES),
    priority: bytes.readUInt16BE(8),
    segment: bytes.readUInt32BE(10),
    sequence: bytes.readInt32BE(14),
    version: bytes.readInt32BE(18),
    until: bytes.readUIntBE(22, 6),
    expiresAt: expires ? bytes.readUIntBE(PLAIN_BYTES, EXPIRY_BYTES) : undefined,
    group: isGrouped
      ? bytes.toString('hex', bytes.length - MAC_BYTES - GROUP_BYTES, bytes.length - MAC_BYTES)
      : undefined,
  };
}

function seal(lease: Lease, bytes: Buffer): Buffer {
  const what = bytes.toString('hex', 0, bytes.length - MAC_BYTES);
  return Buffer.from(lease.guid('claim', what, '').replaceAll('-', ''), 'hex').subarray(0, MAC_BYTES);
}
