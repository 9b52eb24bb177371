/**
 * Tokens of an identity provider (JWTs) as credentials. The signature is checked once; what the token gives is then remembered until it
 * expires, so that heartbeats cost a lookup. A change of the keys or of the rules makes everybody be looked at anew.
 */
import { errors, jwtVerify } from 'jose';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Config } from '../../config.js';
import { PosternError, isPosternError } from '../../errors.js';
import { LruMap } from '../../leases/lru-map.js';
import type { Logger } from '../../log.js';
import { SECOND } from '../../time.js';
import type { Credential } from '../credentials.js';
import { reasonOf, watchFiles } from '../watched-file.js';
import { KeySet } from './key-set.js';
import { permissionsOfClaims, principalOf, readRules } from './token-rules.js';

/** Whoever can sign can also verify with a shared secret: only algorithms with a public key. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
/** How far the clocks of the provider and of this machine may be apart. */
const TOLERANCE_MS = 30 * SECOND;
/** Each takes about a kilobyte. */
const REMEMBERED_MAX = 10_000;

export interface TokensOptions {
  readonly config: Pick<Config, 'oidcAudience' | 'oidcJwks' | 'oidcPrincipalClaim' | 'oidcScopesClaim' | 'oidcRules'>;
  readonly issuer: string;
  readonly logger: Logger;
  readonly pollMs?: number | undefined;
  readonly pauseMs?: number | undefined;
  readonly refreshMs?: number | undefined;
}

interface Remembered {
  readonly credential: Credential;
  /** Epoch ms. */
  readonly until: number;
}

export class Tokens {
  readonly #options: TokensOptions;
  readonly #keys: KeySet;
  readonly #rules: { readonly current: ReturnType<typeof readRules>; close(): void };
  #remembered = new LruMap<string, Remembered>(REMEMBERED_MAX);
  readonly #pending = new Map<string, Promise<Credential>>();

  /** @throws Error with a sentence when a file cannot be used */
  constructor(options: TokensOptions) {
    this.#options = options;
    const { config, issuer, logger, pollMs, pauseMs, refreshMs } = options;
    const forget = (): void => {
      this.#remembered = new LruMap(REMEMBERED_MAX);
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

  /** At once for a token that was verified before. @throws PosternError 401, 503 */
  authenticate(token: string): Credential | Promise<Credential> {
    const key = createHash('sha256').update(token).digest('base64');
    const remembered = this.#remembered.get(key);
    if (remembered !== undefined) {
      if (Date.now() < remembered.until) return remembered.credential;
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
    const { payload } = await jwtVerify(token, this.#keys.find, {
      issuer,
      audience: [...config.oidcAudience],
      algorithms: ALGORITHMS,
      clockTolerance: TOLERANCE_MS / SECOND,
      requiredClaims: ['exp'],
    }).catch((error: unknown) => {
      throw isPosternError(error) ? error : refusal(error);
    });
    const credential: Credential = {
      principal: { id: principalOf(payload, config.oidcPrincipalClaim) },
      ...permissionsOfClaims(payload, config.oidcScopesClaim, this.#rules.current),
    };
    // Not into what has been begun since by a change of the keys or rules.
    remembered.set(key, { credential, until: (payload.exp as number) * SECOND + TOLERANCE_MS });
    return credential;
  }
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
      logger.info({ file, rules: rules.length }, 'read the rules for tokens again');
      onChange();
    },
    onFault: (error) =>
      logger.error({ err: error, file }, 'the rules for tokens cannot be used; they stay as they were'),
    pollMs,
  });
}

/** Says which check failed and nothing of what the token holds. */
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
