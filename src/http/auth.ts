/**
 * Who may come in. Fails closed:
 *
 * - With a file of API keys, every operation that is not public needs a key from it. The file is read again when it changes; one
 *   that cannot be read stops the start, and later leaves the keys as they were, with an error in the log.
 * - Without one everybody is `anonymous` and may do everything, but only from this machine: a request from a web page (`Origin`), or
 *   for a host name that is not loopback (DNS rebinding), is refused.
 */
import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { isLoopback, type Config } from '../config.js';
import { PosternError } from '../errors.js';
import type { Logger } from '../log.js';
import { SECOND } from '../time.js';
import { ANONYMOUS, Credentials, type Credential } from './credentials.js';

/** Polled, because mounted secrets change by swapping a link, which file watchers do not see. */
const POLL_MS = 2 * SECOND;

export interface Authentication {
  /** @throws PosternError 403 for a request that must not even be looked at. `host` is the `Host` header or what replaces it. */
  admit(headers: IncomingHttpHeaders, host: string | undefined): void;
  /** @throws PosternError 401 */
  authenticate(headers: IncomingHttpHeaders): Credential;
  close(): void;
}

export interface AuthenticationOptions {
  readonly config: Pick<Config, 'authFile' | 'insecure' | 'corsOrigins'>;
  readonly logger: Logger;
  readonly pollMs?: number;
}

/** @throws Error when the configured file cannot be used. */
export function createAuthentication({ config, logger, pollMs = POLL_MS }: AuthenticationOptions): Authentication {
  return config.authFile === undefined ? anonymousAccess(config) : keyedAccess(config.authFile, logger, pollMs);
}

function anonymousAccess(config: AuthenticationOptions['config']): Authentication {
  return {
    admit({ origin }, host) {
      if (origin !== undefined && !config.corsOrigins.includes(origin)) {
        throw forbidden('Without API keys requests from web pages are refused (the request has an Origin header).');
      }
      if (!config.insecure && host !== undefined && !isLoopback(hostName(host))) {
        throw forbidden('Without API keys only requests to a loopback host are served (see the Host header).');
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

function keyedAccess(file: string, logger: Logger, pollMs: number): Authentication {
  let credentials = readCredentials(file);
  const onChange = (): void => {
    try {
      credentials = readCredentials(file);
      logger.info({ file, keys: credentials.size }, 'read the API keys again');
    } catch (error) {
      logger.error({ err: error, file }, 'the file of API keys cannot be used; the keys stay as they were');
    }
  };
  watchFile(file, { interval: pollMs, persistent: false }, onChange);
  return {
    admit: () => undefined,
    authenticate({ authorization }) {
      if (authorization === undefined)
        throw new PosternError('unauthenticated', 'Send an API key as "Authorization: Bearer <key>".');
      const key = /^Bearer +([^\s]+) *$/i.exec(authorization)?.[1];
      if (key === undefined)
        throw new PosternError('unauthenticated', 'The Authorization header is not of the form "Bearer <key>".');
      const credential = credentials.find(key);
      if (credential === undefined) throw new PosternError('unauthenticated', 'This API key is not known here.');
      return credential;
    },
    close: () => unwatchFile(file, onChange),
  };
}

function readCredentials(file: string): Credentials {
  try {
    return new Credentials(readFileSync(file, 'utf8'));
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === undefined ? (error as Error).message : 'it cannot be read';
    throw new Error(`POSTERN_AUTH_FILE is "${file}"; it must be a readable file of API keys: ${reason}.`, {
      cause: error,
    });
  }
}

function forbidden(detail: string): PosternError {
  return new PosternError('forbidden', detail);
}
