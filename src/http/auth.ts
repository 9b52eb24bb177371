/**
 * Who may come in. Fails closed:
 *
 * - With a file of API keys or an identity provider, every operation that is not public needs a key or a token of it. The file is read
 *   again when it changes; one that cannot be read stops the start, and later leaves the keys as they were, with an error in the log.
 * - Without either everybody is `anonymous` and may do everything, but only from this machine: a request from a web page (`Origin`), or
 *   for a host name that is not loopback (DNS rebinding), is refused.
 */
import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { isLoopback, type Config } from '../config.js';
import { PosternError } from '../errors.js';
import type { Logger } from '../log.js';
import { ANONYMOUS, Credentials, type Credential } from './credentials.js';
import { Tokens } from './oidc/tokens.js';
import { reasonOf, watchFiles } from './watched-file.js';

export interface Authentication {
  /** @throws PosternError 403 for a request that must not even be looked at. `host` is the `Host` header or what replaces it. */
  admit(headers: IncomingHttpHeaders, host: string | undefined): void;
  /** At once for an API key and for a token that is known; a new token is verified. @throws PosternError 401, 503 */
  authenticate(headers: IncomingHttpHeaders): Credential | Promise<Credential>;
  close(): void;
}

export interface AuthenticationOptions {
  readonly config: Pick<
    Config,
    | 'authFile'
    | 'insecure'
    | 'corsOrigins'
    | 'oidcIssuer'
    | 'oidcAudience'
    | 'oidcJwks'
    | 'oidcPrincipalClaim'
    | 'oidcScopesClaim'
    | 'oidcRules'
  >;
  readonly logger: Logger;
  /** How often files are looked at. */
  readonly pollMs?: number;
  /** How long an identity provider is left in peace after it was asked, and how often it is asked anyway. */
  readonly oidcPauseMs?: number;
  readonly oidcRefreshMs?: number;
}

/** @throws Error when a configured file cannot be used. */
export function createAuthentication(options: AuthenticationOptions): Authentication {
  const { authFile, oidcIssuer } = options.config;
  return authFile === undefined && oidcIssuer === undefined
    ? anonymousAccess(options.config)
    : credentialAccess(options);
}

function anonymousAccess(config: AuthenticationOptions['config']): Authentication {
  return {
    admit({ origin }, host) {
      if (origin !== undefined && !config.corsOrigins.includes(origin)) {
        throw forbidden('Without credentials requests from web pages are refused (the request has an Origin header).');
      }
      if (!config.insecure && host !== undefined && !isLoopback(hostName(host))) {
        throw forbidden('Without credentials only requests to a loopback host are served (see the Host header).');
      }
    },
    authenticate: () => ANONYMOUS,
    close: () => undefined,
  };
}

/** `[::1]:7070` as `::1`. */
function hostName(host: string): string {
  const bracketed = /^\[(.*)\](:\d*)?$/.exec(host)?.[1];
  return bracketed ?? host.replace(/:\d*$/, '');
}

/** Three parts of base64url. API keys are looked for first, so that one may look like this as well. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

function credentialAccess({
  config,
  logger,
  pollMs,
  oidcPauseMs,
  oidcRefreshMs,
}: AuthenticationOptions): Authentication {
  const { authFile, oidcIssuer: issuer } = config;
  const keys = authFile === undefined ? undefined : watchKeys(authFile, logger, pollMs);
  let tokens: Tokens | undefined;
  try {
    if (issuer !== undefined)
      tokens = new Tokens({ config, issuer, logger, pollMs, pauseMs: oidcPauseMs, refreshMs: oidcRefreshMs });
  } catch (error) {
    keys?.close();
    throw error;
  }
  const wanted = [keys === undefined ? [] : ['an API key'], tokens === undefined ? [] : ['a token']]
    .flat()
    .join(' or ');
  return {
    admit: () => undefined,
    authenticate({ authorization }) {
      if (authorization === undefined)
        throw new PosternError('unauthenticated', `Send ${wanted} as "Authorization: Bearer …".`);
      const bearer = /^Bearer +([^\s]+) *$/i.exec(authorization)?.[1];
      if (bearer === undefined)
        throw new PosternError('unauthenticated', 'The Authorization header is not of the form "Bearer …".');
      const credential = keys?.current.find(bearer);
      if (credential !== undefined) return credential;
      if (tokens !== undefined && TOKEN.test(bearer)) return tokens.authenticate(bearer);
      throw new PosternError(
        'unauthenticated',
        keys === undefined ? 'This is no token (a JWT).' : 'This API key is not known here.',
      );
    },
    close() {
      keys?.close();
      tokens?.close();
    },
  };
}

function watchKeys(
  file: string,
  logger: Logger,
  pollMs: number | undefined,
): ReturnType<typeof watchFiles<Credentials>> {
  return watchFiles({
    files: [file],
    read: () => readCredentials(file),
    onChange: ({ size }) => logger.info({ file, keys: size }, 'read the API keys again'),
    onFault: (error) =>
      logger.error({ err: error, file }, 'the file of API keys cannot be used; the keys stay as they were'),
    pollMs,
  });
}

function readCredentials(file: string): Credentials {
  try {
    return new Credentials(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Error(`POSTERN_AUTH_FILE is "${file}"; it must be a readable file of API keys: ${reasonOf(error)}.`, {
      cause: error,
    });
  }
}

function forbidden(detail: string): PosternError {
  return new PosternError('forbidden', detail);
}
