/** The access lists that nodes are created with. */
import zookeeper from 'node-zookeeper-client';
import type { Acl } from './operations.js';

/** Whoever reaches the ensemble may do everything. */
export const OPEN_ACL: readonly Acl[] = zookeeper.ACL.OPEN_ACL_UNSAFE;

/** Only who created the node, with the credentials it had then. */
export const CREATOR_ACL: readonly Acl[] = zookeeper.ACL.CREATOR_ALL_ACL;
