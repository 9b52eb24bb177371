/**
 * Tokens of an identity provider (JWTs) as credentials. A signature is checked once and the resulting credential cached
 * until the token expires, so that heartbeats cost a lookup. When the keys or the rules change, every token is verified
 * again.
 */
import { errors, jwtVerify, type JWTPayload } from 'jose';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Config } from '../../../config.js';
import { PosternError, isPosternError } from '../../../errors.js';
import { LruMap } from '../../../lru-map.js';
import type { Logger } from '../../../log.js';
import { SECOND } from '../../../time.js';
import type { Credential } from '../credentials.js';
import { faultOf, reasonOf, watchFiles } from '../watched-file.js';
import { KeySet } from './key-set.js';
import { permissionsOfClaims, principalOf, readRules, unusable } from './token-rules.js';

/** Algorithms with a public key only: whoever can verify with a shared secret can also sign. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
/** Tolerated difference between the clocks of the provider and of this machine. */
const TOLERANCE_MS = 30 * SECOND;
/** Each takes about a kilobyte. */
const REMEMBERED_MAX = 10_000;

export interface TokensOptions {
  readonly config: Pick<Config, 'oidcAudience' | 'oidcJwks' | 'oidcPrincipalClaim' | 'oidcScopesClaim' | 'oidcRules'>;
  readonly issuer: string;
  readonly logger: Logger;
  /** Called when the keys or the rules have changed. */
  readonly onChange: () => void;
  readonly pollMs?: number | undefined;
  readonly pauseMs?: number | undefined;
  readonly refreshMs?: number | undefined;
}

export class Tokens {
  readonly #options: TokensOptions;
  readonly #keys: KeySet;
  readonly #rules: { readonly current: ReturnType<typeof readRules>; close(): void };
  #remembered = new LruMap<string, Credential & { readonly until: number }>(REMEMBERED_MAX);
  readonly #pending = new Map<string, Promise<Credential>>();

  /** @throws Error with a sentence if a file cannot be used */
  constructor(options: TokensOptions) {
    this.#options = options;
    const { config, issuer, logger, pollMs, pauseMs, refreshMs } = options;
    const forget = (): void => {
      this.#remembered = new LruMap(REMEMBERED_MAX);
      options.onChange();
    };
    this.#rules = rulesOf(config.oidcRules, logger, forget, pollMs);
    try {
      this.#keys = new KeySet({
        issuer,
        source: config.oidcJwks,
        logger,
        onChange: forget,
        pollMs,
        pauseMs,
        refreshMs,
      });
    } catch (error) {
      this.#rules.close();
      throw error;
    }
  }

  /**
   * Synchronous for a token that was verified before.
   * @throws PosternError 401, 503
   */
  authenticate(token: string): Credential | Promise<Credential> {
    const key = createHash('sha256').update(token).digest('base64');
    const remembered = this.#remembered.get(key);
    if (remembered !== undefined) {
      if (Date.now() < remembered.until) return remembered;
      this.#remembered.delete(key);
    }
    let pending = this.#pending.get(key);
    if (pending === undefined) {
      pending = this.#verify(token, key).finally(() => this.#pending.delete(key));
      this.#pending.set(key, pending);
    }
    return pending;
  }

  close(): void {
    this.#keys.close();
    this.#rules.close();
  }

  async #verify(token: string, key: string): Promise<Credential> {
    const { config, issuer } = this.#options;
    const remembered = this.#remembered;
    const { payload, protectedHeader } = await jwtVerify(token, this.#keys.find, {
      issuer,
      audience: [...config.oidcAudience],
      algorithms: ALGORITHMS,
      clockTolerance: TOLERANCE_MS / SECOND,
      requiredClaims: ['exp'],
    }).catch((error: unknown) => {
      throw isPosternError(error) ? error : refusal(error);
    });
    checkUse(payload, protectedHeader.typ);
    // The keys or rules may have changed since the verification began.
    if (remembered !== this.#remembered) return this.#verify(token, key);
    const credential = {
      principal: { id: principalOf(payload, config.oidcPrincipalClaim) },
      ...permissionsOfClaims(payload, config.oidcScopesClaim, this.#rules.current),
      until: (payload.exp as number) * SECOND + TOLERANCE_MS,
    };
    remembered.set(key, credential);
    return credential;
  }
}

/**
 * The types of tokens meant as credentials: ID tokens, tokens of CI jobs and of Kubernetes, access tokens (RFC 9068).
 * Many tokens have no type.
 */
const TYPES = new Set(['jwt', 'at+jwt']);

/**
 * The provider's keys sign more than credentials (RFC 8725, 3.11 and 3.12).
 * @throws PosternError 401
 */
function checkUse(payload: JWTPayload, type: unknown): void {
  // Of the header only the algorithm and the key were checked; the rest may be any JSON.
  if (type !== undefined && !(typeof type === 'string' && TYPES.has(type.toLowerCase().replace(/^application\//, ''))))
    throw unusable('"typ" is neither "JWT" nor "at+jwt"');
  if (payload['events'] !== undefined)
    throw unusable('claim "events" says that it tells of something, such as a logout');
  // A bound token may have been stolen: possession of the key that it is bound to is not checked here.
  if (payload['cnf'] !== undefined)
    throw unusable('claim "cnf" binds it to a key, which this gateway does not ask for: use a token that is not bound');
}

function rulesOf(
  file: string | undefined,
  logger: Logger,
  onChange: () => void,
  pollMs: number | undefined,
): { readonly current: ReturnType<typeof readRules>; close(): void } {
  if (file === undefined) return { current: [], close: () => undefined };
  return watchFiles({
    files: [file],
    read() {
      try {
        return readRules(readFileSync(file, 'utf8'));
      } catch (error) {
        throw new Error(`POSTERN_OIDC_RULES is "${file}"; it must be a readable file of rules: ${reasonOf(error)}.`, {
          cause: error,
        });
      }
    },
    onChange(rules) {
      logger.info({ file, rules: rules.length }, 'reloaded the token rules');
      onChange();
    },
    onFault: (error) =>
      logger.error({ ...faultOf(error), file }, 'failed to reload the token rules; keeping the previous ones'),
    pollMs,
  });
}

/** Says which check failed, and nothing of what the token contains. */
function refusal(cause: unknown): PosternError {
  return new PosternError('unauthenticated', `This token is not valid here: ${explain(cause)}.`, { cause });
}

function explain(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'it has expired';
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.claim === 'nbf'
      ? 'it is not valid yet'
      : `its claim "${error.claim}" is missing or not the one that is wanted here`;
  if (error instanceof errors.JWKSNoMatchingKey)
    return 'it is signed with a key that the identity provider does not have';
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported)
    return 'its algorithm is not one that is read here';
  return 'its signature or form is wrong';
}
