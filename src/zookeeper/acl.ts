/** The access lists of new nodes. */
import zookeeper from 'node-zookeeper-client';
import type { Acl } from './operations.js';

/** Everybody who reaches the ensemble may do everything. */
export const OPEN_ACL: readonly Acl[] = zookeeper.ACL.OPEN_ACL_UNSAFE;

/** Only the creator, identified by the credentials it had then. */
export const CREATOR_ACL: readonly Acl[] = zookeeper.ACL.CREATOR_ALL_ACL;
