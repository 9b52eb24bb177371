/** How a client is set up, with the reasons for the defaults. */

export interface TlsOptions {
  /** Certificate authorities to trust instead of the system's, PEM. */
  ca?: string | Uint8Array | undefined;
  /** The client's own certificate and its key, PEM. */
  cert?: string | Uint8Array | undefined;
  key?: string | Uint8Array | undefined;
  passphrase?: string | undefined;
  /** The name to ask for and to check, if it is not the host of the URL. */
  servername?: string | undefined;
}

export interface PosternOptions {
  /** The replicas, in any order: `http://host:port` or `https://…`. A request goes to another one when one fails. */
  urls: readonly string[];
  /** An API key or a token of the identity provider; or a function that gives the present one for each request. */
  credential?: string | (() => string | Promise<string>) | undefined;
  /** The namespace to work in; `default` unless set. */
  namespace?: string | undefined;
  /** How long the lease outlives its last heartbeat, in milliseconds; 10 000 unless set. */
  ttlMs?: number | undefined;
  /**
   * How long before the TTL has passed the holds are given up, in milliseconds; a third of the TTL unless set. That
   * time covers a heartbeat that is lost with a server of the ensemble, clocks that do not run equally fast, and the
   * work that needs a moment to stop.
   */
  marginMs?: number | undefined;
  /** Shown with the lease and with everything it holds. */
  label?: string | undefined;
  /** No heartbeats are sent while this says false, so that a program that is stuck loses its lease. */
  alive?: (() => boolean) | undefined;
  /** For how long a request that no gateway serves is repeated, in milliseconds; 10 000 unless set. */
  patienceMs?: number | undefined;
  tls?: TlsOptions | undefined;
}

export interface Settings {
  urls: readonly URL[];
  credential: () => string | undefined | Promise<string>;
  namespace: string | undefined;
  ttlMs: number;
  marginMs: number;
  label: string | undefined;
  alive: () => boolean;
  patienceMs: number;
  tls: TlsOptions | undefined;
}

const TTL_MS = 10_000;
/** A gateway gives up a request that ZooKeeper does not serve after 10 s, unless set otherwise. */
const PATIENCE_MS = 10_000;
const PARTS_OF_MARGIN = 3;

/** @throws TypeError for a URL that cannot be used, or times that contradict each other */
export function settingsOf(options: PosternOptions): Settings {
  const { credential, ttlMs = TTL_MS, marginMs = ttlMs / PARTS_OF_MARGIN, patienceMs = PATIENCE_MS } = options;
  const urls = options.urls.map((url) => new URL(url));
  if (urls.length === 0) throw new TypeError('urls is empty: give the address of at least one gateway');
  const other = urls.find(({ protocol }) => protocol !== 'http:' && protocol !== 'https:');
  if (other) throw new TypeError(`${other.href} begins with neither http:// nor https://`);
  if (!(marginMs >= 0 && marginMs < ttlMs))
    throw new TypeError(`marginMs is ${marginMs}: it must be at least 0 and less than ttlMs, ${ttlMs}`);
  return {
    urls,
    credential: typeof credential === 'function' ? credential : () => credential,
    namespace: options.namespace,
    ttlMs,
    marginMs,
    label: options.label,
    alive: options.alive ?? (() => true),
    patienceMs,
    tls: options.tls,
  };
}
