/**
 * The public keys of the identity provider (JWKS), from a file or an address, or from the address in the issuer's
 * discovery document.
 *
 *   none ──first read──▶ known ──every 10 minutes, and when a key id is unknown──▶ read anew
 *     │                                                                              └──fails──▶ the known keys stay
 *     └──fails──▶ none: 503, asked again with the next token after a pause
 *
 * A new signing key is found without a restart, because its first token has an unknown key id. Strangers can send any
 * key id, so the provider is asked at most once per pause; everybody who needs the answer shares one request.
 */
import { createLocalJWKSet, errors, type FlattenedJWSInput, type JWSHeaderParameters } from 'jose';
import { readFileSync } from 'node:fs';
import { PosternError } from '../../../errors.js';
import type { Logger } from '../../../log.js';
import { MINUTE, SECOND } from '../../../time.js';
import { faultOf, reasonOf, watchFiles } from '../watched-file.js';

const REFRESH_MS = 10 * MINUTE;
const PAUSE_MS = 10 * SECOND;
const FETCH_MS = 5 * SECOND;
/** A hundred keys take a tenth of this. */
const DOCUMENT_BYTES_MAX = 1_048_576;
const REDIRECTS_MAX = 3;
const DISCOVERY = '/.well-known/openid-configuration';

type Keys = ReturnType<typeof createLocalJWKSet>;
type Key = Awaited<ReturnType<Keys>>;

export interface KeySetOptions {
  readonly issuer: string;
  /** Address or file of the keys; undefined: as in the issuer's discovery document. */
  readonly source: string | undefined;
  readonly logger: Logger;
  /** Called when the keys have changed. */
  readonly onChange: () => void;
  readonly pollMs?: number | undefined;
  readonly pauseMs?: number | undefined;
  readonly refreshMs?: number | undefined;
}

export class KeySet {
  readonly #options: KeySetOptions;
  readonly #isFile: boolean;
  #keys: Keys | undefined;
  /** The text of the current keys, for telling whether they changed. */
  #text = '';
  #reading: Promise<void> | undefined;
  /** Monotonic. */
  #readAt = -Infinity;
  readonly #close: () => void;

  /** @throws Error with a sentence if it is a file that cannot be used */
  constructor(options: KeySetOptions) {
    this.#options = options;
    const { source, logger, pollMs, refreshMs = REFRESH_MS } = options;
    this.#isFile = source !== undefined && !/^https?:/.test(source);
    if (this.#isFile) {
      const file = source as string;
      const watched = watchFiles({
        files: [file],
        read: () => this.#readFile(file),
        onChange: () => logger.info({ file }, "reloaded the identity provider's keys"),
        onFault: (error) =>
          logger.error(
            { ...faultOf(error), file },
            "failed to reload the identity provider's keys; keeping the previous ones",
          ),
        pollMs,
      });
      this.#close = () => watched.close();
    } else {
      void this.#refresh();
      const timer = setInterval(() => void this.#refresh(), refreshMs).unref();
      this.#close = () => clearInterval(timer);
    }
  }

  /**
   * For `jwtVerify`.
   * @throws PosternError 503 while no keys are known
   * @throws JOSEError if no key matches
   */
  readonly find = async (header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<Key> => {
    if (this.#keys === undefined) await this.#readAgain();
    if (this.#keys === undefined) throw unavailable();
    try {
      return await this.#keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !(await this.#readAgain())) throw error;
      return this.#keys(header, token);
    }
  };

  close(): void {
    this.#close();
  }

  /** @returns whether the keys have just been read */
  async #readAgain(): Promise<boolean> {
    const { pauseMs = PAUSE_MS } = this.#options;
    if (this.#isFile) return false;
    if (this.#reading === undefined && performance.now() - this.#readAt < pauseMs) return false;
    await this.#refresh();
    return true;
  }

  /** Never rejects. */
  #refresh(): Promise<void> {
    return (this.#reading ??= this.#fetchKeys()
      .then((text) => this.#use(text))
      .catch((error: unknown) => {
        const { issuer, logger } = this.#options;
        const still = this.#keys === undefined ? 'answering tokens with 503' : 'keeping the known ones';
        logger.warn({ err: error, issuer }, `failed to fetch the identity provider's keys; ${still}`);
      })
      .finally(() => {
        this.#readAt = performance.now();
        this.#reading = undefined;
      }));
  }

  async #fetchKeys(): Promise<string> {
    const { source, issuer } = this.#options;
    if (source !== undefined) return fetchText(source);
    const discovery = JSON.parse(await fetchText(issuer.replace(/\/$/, '') + DISCOVERY)) as Record<string, unknown>;
    const { jwks_uri: uri } = discovery;
    // A document of another issuer is not the configured one's.
    if (discovery['issuer'] !== issuer) throw new Error(`the discovery document is of another issuer than ${issuer}`);
    if (typeof uri !== 'string') throw new Error('the discovery document has no jwks_uri');
    return fetchText(uri);
  }

  #readFile(file: string): void {
    try {
      this.#use(readFileSync(file, 'utf8'));
    } catch (error) {
      throw new Error(
        `POSTERN_OIDC_JWKS is "${file}"; it must be an address, or a file with a key set: ${reasonOf(error)}.`,
        {
          cause: error,
        },
      );
    }
  }

  #use(text: string): void {
    if (text === this.#text) return;
    const set = JSON.parse(text) as Parameters<typeof createLocalJWKSet>[0];
    const keys = createLocalJWKSet(set);
    // The provider is in trouble, or something else answers at its address: with an empty set nobody could come in
    // until the next read.
    if (set.keys.length === 0) throw new Error('the key set is empty');
    const isFirst = this.#keys === undefined;
    this.#keys = keys;
    this.#text = text;
    if (!isFirst) this.#options.onChange();
  }
}

/**
 * Redirects are not followed: the operator or the discovery document chose this address, and any other server that
 * answers could sign for everybody.
 */
async function fetchText(address: string): Promise<string> {
  const signal = AbortSignal.timeout(FETCH_MS);
  let url = address;
  for (let hops = 0; ; hops += 1) {
    const response = await fetch(url, { signal, redirect: 'manual', headers: { accept: 'application/json' } });
    const location = response.headers.get('location');
    if (response.status < 300 || response.status > 399 || location === null) return textOf(response, url);
    await response.body?.cancel();
    const next = new URL(location, url);
    if (next.origin !== new URL(url).origin)
      throw new Error(
        `${url} redirects to ${next.origin}, which is another origin: set POSTERN_OIDC_JWKS to where the keys are`,
      );
    if (hops === REDIRECTS_MAX) throw new Error(`${address} redirects more than ${REDIRECTS_MAX} times`);
    url = next.href;
  }
}

async function textOf(response: Response, url: string): Promise<string> {
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`${url} answered ${response.status}`);
  }
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    parts.push(Buffer.from(part as Uint8Array));
    bytes += (part as Uint8Array).length;
    if (bytes > DOCUMENT_BYTES_MAX) throw new Error(`${url} answered more than ${DOCUMENT_BYTES_MAX} bytes`);
  }
  return Buffer.concat(parts).toString('utf8');
}

function unavailable(): PosternError {
  return new PosternError(
    'identity-provider-unavailable',
    'The keys of the identity provider could not be read yet, so no token can be verified.',
  );
}
