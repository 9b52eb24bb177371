/**
 * A request of the fuzzer as long as its parts can still be changed, and what is agreed about the replicas that it goes
 * to.
 */
import type { Operation } from '../../src/http/contract/openapi.js';

/** Of the replicas that are tried; small, so that what is above them costs little. */
export const LIMITS = { maxWaitMs: 150, maxBodyBytes: 32 * 1024, maxMessageBytes: 8 * 1024 };

/** Principals of the tests' API keys; the first one may do everything. */
export const PRINCIPALS = ['root', 'alice', 'reader'] as const;
export type PrincipalName = (typeof PRINCIPALS)[number];
export const NAMESPACES = ['default', 'other'];

/** A request as long as its parts can still be changed. */
export interface Draft {
  readonly operation: Operation;
  method: string;
  /** The path's parameters, percent-encoded. */
  readonly params: Record<string, string>;
  readonly query: [string, string][];
  readonly headers: [string, string][];
  /** What the body says; undefined for an operation that reads none. */
  json: unknown;
  /** The body itself, once it is no longer what `json` says. */
  bytes: Buffer | undefined;
  /** In place of path and query. */
  target: string | undefined;
  /** Headers that say how long the body is, in place of the right one. */
  framing: string[] | undefined;
  principal: PrincipalName;
  /** Of each principal. */
  readonly keys: Readonly<Record<PrincipalName, string>>;
  readonly namespace: string;
  /** What was made wrong. */
  readonly wrong: string[];
  /** The first of them that leaves the gateway no choice. */
  mustRefuse: string | undefined;
}
