/**
 * Authentication and admission. Fails closed:
 *
 * - With a file of API keys or an identity provider, every operation that is not public needs one of its keys or
 *   tokens. The file is read again when it changes. A file that cannot be read stops the start; later, it leaves the
 *   keys as they were and logs an error. A key that comes as a password (`Basic`) is refused from the web pages of
 *   others, as below: a browser that knows a password sends it by itself, which it never does with `Bearer`.
 * - Without either, every caller is `anonymous` and may do everything, except the web pages of others: requests that
 *   come from such a page (`Origin`, `Sec-Fetch-Site`) or name an unknown host are refused. A page can point its own
 *   name at this gateway and is then of the same origin (DNS rebinding); it cannot do that with an address. So the
 *   gateway's own pages (`/docs`) are those whose origin is the host of the request, if that host is known.
 */
import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { Config } from '../../config.js';
import { PosternError } from '../../errors.js';
import type { Logger } from '../../log.js';
import { isLoopback } from '../../loopback.js';
import { ANONYMOUS, Credentials, isPassword, presentedIn, type Credential } from './credentials.js';
import { Tokens } from './oidc/tokens.js';
import { faultOf, reasonOf, watchFiles } from './watched-file.js';

export interface Authentication {
  /**
   * @param host the `Host` header or what replaces it
   * @throws PosternError 403 for a request that must not even be looked at
   */
  admit(headers: IncomingHttpHeaders, host: string | undefined): void;
  /**
   * Synchronous for an API key and for a known token; a new token is verified first.
   * @throws PosternError 401, 503
   */
  authenticate(headers: IncomingHttpHeaders): Credential | Promise<Credential>;
  /** Calls back whenever the result of `authenticate` may have changed. */
  onChange(listener: () => void): void;
  close(): void;
}

export interface AuthenticationOptions {
  readonly config: Pick<
    Config,
    | 'authFile'
    | 'insecure'
    | 'host'
    | 'allowedHosts'
    | 'corsOrigins'
    | 'oidcIssuer'
    | 'oidcAudience'
    | 'oidcJwks'
    | 'oidcPrincipalClaim'
    | 'oidcScopesClaim'
    | 'oidcRules'
  >;
  readonly logger: Logger;
  /** How often the files are polled. */
  readonly pollMs?: number;
  /** The least pause between two requests to the identity provider, and the interval at which it is asked anyway. */
  readonly oidcPauseMs?: number;
  readonly oidcRefreshMs?: number;
}

/** @throws Error if a configured file cannot be used */
export function createAuthentication(options: AuthenticationOptions): Authentication {
  const { authFile, oidcIssuer } = options.config;
  return authFile === undefined && oidcIssuer === undefined
    ? anonymousAccess(options.config)
    : credentialAccess(options);
}

function anonymousAccess(config: AuthenticationOptions['config']): Authentication {
  const named = new Set([config.host.toLowerCase(), ...config.allowedHosts]);
  // A gateway that listens on loopback only is addressed by another name only through a proxy, which must be named.
  const isKnown = (host: string): boolean =>
    isLoopback(host) || named.has(host.toLowerCase()) || (config.insecure && isIP(host) !== 0);
  return {
    admit(headers, host) {
      const sign = foreignSign(headers, host, config.corsOrigins);
      if (sign !== undefined)
        throw forbidden(
          `Without credentials requests from other web pages are refused (the request has the header ${sign}).`,
        );
      const name = host === undefined ? undefined : hostName(host);
      if (name === undefined || isKnown(name)) return;
      throw forbidden(
        `The request is for the host ${JSON.stringify(name.slice(0, SHOWN_HOST_MAX))}; without credentials it must be for ` +
          `${config.insecure ? 'localhost, an address' : 'a loopback host'} or a name that POSTERN_ALLOWED_HOSTS has.`,
      );
    },
    authenticate: () => ANONYMOUS,
    onChange: () => undefined,
    close: () => undefined,
  };
}

/** @returns the header that shows that a page of others makes the request, which the operator has not named */
function foreignSign(
  headers: IncomingHttpHeaders,
  host: string | undefined,
  corsOrigins: readonly string[],
): string | undefined {
  const { origin } = headers;
  if (origin === undefined) return isOfForeignPage(headers) ? 'Sec-Fetch-Site' : undefined;
  const isOwn = isOfHost(origin, host) && isOfSameOrigin(headers);
  return corsOrigins.includes(origin) || isOwn ? undefined : 'Origin';
}

/**
 * Resources that another site's page loads without a preflight, such as images and scripts, carry no `Origin`; browsers
 * mark them with this header instead. A link that somebody follows shows the answer to that person, not to the page.
 */
function isOfForeignPage(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== 'cross-site' && site !== 'same-site') return false;
  return headers['sec-fetch-mode'] !== 'navigate' || headers['sec-fetch-dest'] !== 'document';
}

/** Browsers write both in lower case, and leave out the same ports. TLS may end at a proxy. */
function isOfHost(origin: string, host: string | undefined): boolean {
  return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
}

/** Browsers that send this header compare schemes as well, and know the name before a proxy changed it. */
function isOfSameOrigin(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined || site === 'same-origin' || site === 'none';
}

/** No host name is longer. */
const SHOWN_HOST_MAX = 253;

/** `[::1]:7070` as `::1`. */
function hostName(host: string): string {
  const bracketed = /^\[(.*)\](:\d*)?$/.exec(host)?.[1];
  return bracketed ?? host.replace(/:\d*$/, '');
}

/** Three parts of base64url. API keys are looked up first, so that a key may look like this too. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

function credentialAccess({
  config,
  logger,
  pollMs,
  oidcPauseMs,
  oidcRefreshMs,
}: AuthenticationOptions): Authentication {
  const { authFile, oidcIssuer: issuer } = config;
  let changed = (): void => undefined;
  const onChange = (): void => changed();
  const keys = authFile === undefined ? undefined : watchKeys(authFile, logger, onChange, pollMs);
  let tokens: Tokens | undefined;
  try {
    if (issuer !== undefined)
      tokens = new Tokens({ config, issuer, logger, onChange, pollMs, pauseMs: oidcPauseMs, refreshMs: oidcRefreshMs });
  } catch (error) {
    keys?.close();
    throw error;
  }
  const wanted = [keys === undefined ? [] : ['an API key'], tokens === undefined ? [] : ['a token']]
    .flat()
    .join(' or ');
  return {
    admit(headers, host) {
      if (!isPassword(headers.authorization)) return;
      const sign = foreignSign(headers, host, config.corsOrigins);
      if (sign === undefined) return;
      throw forbidden(
        `A password (Basic) is refused from other web pages (the request has the header ${sign}): browsers send it by themselves. Pages send "Authorization: Bearer …".`,
      );
    },
    authenticate({ authorization }) {
      if (authorization === undefined)
        throw new PosternError('unauthenticated', `Send ${wanted} as "Authorization: Bearer …".`);
      const bearer = presentedIn(authorization);
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
    onChange: (listener) => {
      changed = listener;
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
  onChange: () => void,
  pollMs: number | undefined,
): ReturnType<typeof watchFiles<Credentials>> {
  return watchFiles({
    files: [file],
    read: () => readCredentials(file),
    onChange({ size }) {
      logger.info({ file, keys: size }, 'reloaded the API keys');
      onChange();
    },
    onFault: (error) =>
      logger.error({ ...faultOf(error), file }, 'failed to reload the API keys; keeping the previous ones'),
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
