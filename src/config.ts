/**
 * Every setting in one table: the only reader of the environment, and the source of `--help` and of the README's table.
 *
 * A bad value stops the start and names the variable, the value and the rule. The result is frozen and handed down; nothing
 * changes it later.
 */
import {
  contentOfFile,
  flag,
  integer,
  list,
  listFile,
  matching,
  oneOf,
  optionalInteger,
  optionalMatching,
  type Setting,
} from './setting.js';
import { HOUR, MINUTE, SECOND } from './time.js';

const LEASE_KEY_BYTES = 32; // AES-256

/** Common proxies cut a silent request at 60 s; this leaves them time for the answer. */
const MAX_WAIT_MS = 55 * SECOND;
const MAX_WAITERS = 20_000;
/** Below the 15 000 sockets that a process with common limits has left beside its clients. */
const MAX_ATTACHED = 12_000;
/** Balancers ask every second or two whether a replica is ready, and believe the second refusal. */
const DRAIN_PAUSE_MS = 5 * SECOND;
/** Some turns of that length are what a request takes then: less than clients with the shortest time-outs wait, more than a busy replica needs. */
const OVERLOAD_DELAY_MS = 100;
/** Half of what a replica serves at once, so that no principal takes it from all others. */
const MAX_PER_PRINCIPAL = 10_000;
const DRAIN_MS = 10 * SECOND;
const REQUEST_TIMEOUT_MS = 10 * SECOND;
/** Longer than a participant that was told nothing takes to come back and ask. */
const TRANSACTION_HISTORY_MS = 24 * HOUR;
const MIB = 1_048_576;

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

const SERVER = String.raw`(\[[0-9A-Fa-f:.%]+\]|[^\s:,/[\]]+)(:\d{1,5})?`;
const CONNECT_STRING = new RegExp(`^${SERVER}(,${SERVER})*(/[^\\s]*)?$`);
const ADDRESS = /^https?:\/\/[^\s?#]+$/;
const ZNODE_PATH = /^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]{1,200})+$/;

const LEASE_KEYS_RULE = `base64 of exactly ${LEASE_KEY_BYTES} bytes each, separated by commas`;

const SETTINGS = {
  zookeeper: optionalMatching(
    {
      env: 'POSTERN_ZOOKEEPER',
      sentence: 'The ensemble to use; `npm start` without it starts a ZooKeeper of its own.',
    },
    'host:port,host:port… and may end in a chroot such as /apps',
    CONNECT_STRING,
  ),
  zookeeperAuth: optionalMatching(
    {
      env: 'POSTERN_ZOOKEEPER_AUTH',
      sentence: 'Digest credentials towards ZooKeeper; znodes are then created for them alone.',
      secret: true,
    },
    'user:password',
    /^[^:]+:.+$/,
  ),
  zookeeperTls: flag({ env: 'POSTERN_ZOOKEEPER_TLS', sentence: 'Whether to speak TLS to ZooKeeper.' }),
  zookeeperTlsCa: contentOfFile({
    env: 'POSTERN_ZOOKEEPER_TLS_CA',
    sentence: 'PEM file of the authority that signed the certificates of ZooKeeper.',
  }),
  zookeeperTlsCert: contentOfFile({
    env: 'POSTERN_ZOOKEEPER_TLS_CERT',
    sentence: 'PEM file of the certificate to show to ZooKeeper.',
  }),
  zookeeperTlsKey: contentOfFile({
    env: 'POSTERN_ZOOKEEPER_TLS_KEY',
    sentence: 'PEM file of the key of that certificate.',
  }),
  host: matching(
    {
      env: 'POSTERN_HOST',
      sentence:
        'Address to listen on; one that is not loopback needs POSTERN_AUTH_FILE, POSTERN_OIDC_ISSUER or POSTERN_INSECURE.',
    },
    'a host name or an address',
    /^[A-Za-z0-9.:%_-]+$/,
    '127.0.0.1',
  ),
  port: integer(
    { env: 'POSTERN_PORT', sentence: 'Port to listen on; 0 takes any that is free.' },
    { fallback: 7070, min: 0, max: 65_535 },
  ),
  opsPort: optionalInteger(
    {
      env: 'POSTERN_OPS_PORT',
      sentence: 'Port that serves /healthz, /readyz and /metrics apart; 0 takes any that is free.',
    },
    { min: 0, max: 65_535 },
  ),
  tlsCert: optionalMatching(
    {
      env: 'POSTERN_TLS_CERT',
      sentence:
        'PEM file of the certificate, with those between it and its authority: the main port then speaks TLS only. Read again when it changes.',
    },
    'the path of a file',
    /./,
  ),
  tlsKey: optionalMatching(
    { env: 'POSTERN_TLS_KEY', sentence: 'PEM file of the key of that certificate.' },
    'the path of a file',
    /./,
  ),
  tlsClientCa: optionalMatching(
    {
      env: 'POSTERN_TLS_CLIENT_CA',
      sentence:
        'PEM file of the authority of clients: the main port then refuses connections without a certificate signed by it.',
    },
    'the path of a file',
    /./,
  ),
  root: matching(
    { env: 'POSTERN_ROOT', sentence: 'Where everything lies in ZooKeeper, below the chroot.' },
    'a path such as /postern',
    ZNODE_PATH,
    '/postern',
  ),
  leaseKeys: list(
    {
      env: 'POSTERN_LEASE_KEYS',
      sentence:
        'Keys that seal lease tokens: the first one seals, all open; without any, the replicas share one that is made in ZooKeeper.',
      secret: true,
    },
    LEASE_KEYS_RULE,
    parseLeaseKey,
  ),
  leaseKeysFile: listFile(
    { env: 'POSTERN_LEASE_KEYS_FILE', sentence: 'File that holds what POSTERN_LEASE_KEYS would.' },
    `the path of a readable file with keys: ${LEASE_KEYS_RULE}`,
    parseLeaseKey,
  ),
  authFile: optionalMatching(
    {
      env: 'POSTERN_AUTH_FILE',
      sentence:
        'JSON file of API keys (`make-key` makes them), read again when it changes; without any credentials everybody may do everything, on loopback only.',
    },
    'the path of a file',
    /./,
  ),
  oidcIssuer: optionalMatching(
    {
      env: 'POSTERN_OIDC_ISSUER',
      sentence: 'Identity provider whose tokens (JWTs) are credentials, as its tokens name it in `iss`.',
    },
    'an address such as https://login.example.org/realms/main',
    ADDRESS,
  ),
  oidcAudience: list(
    {
      env: 'POSTERN_OIDC_AUDIENCE',
      sentence: 'What a token must have one of in `aud`; needed with POSTERN_OIDC_ISSUER.',
    },
    'texts separated by commas',
    (text) => (text === '' ? undefined : text),
  ),
  oidcJwks: optionalMatching(
    {
      env: 'POSTERN_OIDC_JWKS',
      sentence: 'Key set of the issuer; without it the one that its discovery document names.',
    },
    'an address, or the path of a file',
    /./,
  ),
  oidcPrincipalClaim: matching(
    {
      env: 'POSTERN_OIDC_PRINCIPAL_CLAIM',
      sentence: 'Claim that names the principal of a token, which is then called `oidc~…`.',
    },
    'the name of a claim',
    /./,
    'sub',
  ),
  oidcScopesClaim: matching(
    {
      env: 'POSTERN_OIDC_SCOPES_CLAIM',
      sentence: 'Claim that holds what `namespaces` of an API key does.',
    },
    'the name of a claim',
    /./,
    'postern',
  ),
  oidcRules: optionalMatching(
    {
      env: 'POSTERN_OIDC_RULES',
      sentence:
        'JSON file of rules that give namespaces and scopes to tokens by their claims, read again when it changes.',
    },
    'the path of a file',
    /./,
  ),
  insecure: flag({
    env: 'POSTERN_INSECURE',
    sentence: 'Allows to listen on any address, and any Host header, without credentials.',
  }),
  corsOrigins: list(
    { env: 'POSTERN_CORS_ORIGINS', sentence: 'Origins whose web pages may call the gateway.' },
    'origins such as https://ops.example.org, separated by commas',
    parseOrigin,
  ),
  maxWaitMs: integer(
    {
      env: 'POSTERN_MAX_WAIT_MS',
      sentence: 'The longest wait and stream; keep it below the time-out of the proxies on the way.',
    },
    { fallback: MAX_WAIT_MS, min: 1, max: HOUR, unit: 'ms' },
  ),
  maxWaiters: integer(
    {
      env: 'POSTERN_MAX_WAITERS',
      sentence: 'Requests that may wait and streams that may be open in this replica at once.',
    },
    { fallback: MAX_WAITERS, min: 1, max: 1_000_000 },
  ),
  maxWaitsPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_WAITS_PER_PRINCIPAL',
      sentence: 'Requests of one principal that may wait in this replica at once.',
    },
    { fallback: MAX_PER_PRINCIPAL, min: 1, max: 1_000_000 },
  ),
  maxStreamsPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_STREAMS_PER_PRINCIPAL',
      sentence: 'Streams of one principal that may be open in this replica at once.',
    },
    { fallback: MAX_PER_PRINCIPAL, min: 1, max: 1_000_000 },
  ),
  maxLeasesPerPrincipal: integer(
    {
      env: 'POSTERN_MAX_LEASES_PER_PRINCIPAL',
      sentence:
        'Leases of one principal that this replica may keep connections for before it grants that principal no more.',
    },
    { fallback: MAX_PER_PRINCIPAL, min: 1, max: 1_000_000 },
  ),
  rateLimit: integer(
    {
      env: 'POSTERN_RATE_LIMIT',
      sentence:
        'Requests per second that this replica takes from one principal; heartbeats, releases and the like do not count. 0: any number.',
    },
    { fallback: 0, min: 0, max: 1_000_000 },
  ),
  rateBurst: integer(
    { env: 'POSTERN_RATE_BURST', sentence: 'Requests that may come at once; 0: as many as in a second.' },
    { fallback: 0, min: 0, max: 1_000_000 },
  ),
  overloadDelayMs: integer(
    {
      env: 'POSTERN_OVERLOAD_DELAY_MS',
      sentence:
        'How late the event loop may be before new work is refused; heartbeats, releases and the like never are. 0: any time.',
    },
    { fallback: OVERLOAD_DELAY_MS, min: 0, max: MINUTE, unit: 'ms' },
  ),
  maxAttached: integer(
    {
      env: 'POSTERN_MAX_ATTACHED',
      sentence: 'Lease sessions that this replica keeps connections for; each is a connection to the ensemble.',
    },
    { fallback: MAX_ATTACHED, min: 1, max: 1_000_000 },
  ),
  requestTimeoutMs: integer(
    { env: 'POSTERN_REQUEST_TIMEOUT_MS', sentence: 'By when a request is answered, apart from the wait it asked for.' },
    { fallback: REQUEST_TIMEOUT_MS, min: 100, max: 5 * MINUTE, unit: 'ms' },
  ),
  maxBodyBytes: integer(
    { env: 'POSTERN_MAX_BODY_BYTES', sentence: 'The largest body of a request.' },
    { fallback: MIB, min: 1024, max: 64 * MIB, unit: 'bytes' },
  ),
  transactionHistoryMs: integer(
    {
      env: 'POSTERN_TRANSACTION_HISTORY_MS',
      sentence: 'How long a transaction can be looked up after it was decided.',
    },
    { fallback: TRANSACTION_HISTORY_MS, min: 0, max: 30 * 24 * HOUR, unit: 'ms' },
  ),
  maxMessageBytes: integer(
    { env: 'POSTERN_MAX_MESSAGE_BYTES', sentence: 'The largest body of a message in a queue.' },
    { fallback: MIB / 4, min: 1024, max: 900 * 1024, unit: 'bytes' },
  ),
  maxQueueLabels: integer(
    {
      env: 'POSTERN_MAX_QUEUE_LABELS',
      sentence: 'How many queues have metrics under their own names; the others are counted together as "other".',
    },
    { fallback: 50, min: 0, max: 1000 },
  ),
  drainPauseMs: integer(
    {
      env: 'POSTERN_DRAIN_PAUSE_MS',
      sentence:
        'How long a stopping replica is not ready, and serves on, before it drains. On a loopback address 0 unless set.',
    },
    { fallback: DRAIN_PAUSE_MS, min: 0, max: HOUR, unit: 'ms' },
  ),
  workers: integer(
    {
      env: 'POSTERN_WORKERS',
      sentence: 'Processes that serve this replica, for more than one core; its limits are divided among them.',
    },
    { fallback: 1, min: 1, max: 64 },
  ),
  drainMs: integer(
    { env: 'POSTERN_DRAIN_MS', sentence: 'How long a stopping replica lets requests finish before it cuts them off.' },
    { fallback: DRAIN_MS, min: 0, max: HOUR, unit: 'ms' },
  ),
  logLevel: oneOf(
    {
      env: 'POSTERN_LOG_LEVEL',
      sentence: 'The least important log lines to write; the log is JSON on standard output.',
    },
    LOG_LEVELS,
    'info',
  ),
  dataDir: matching(
    { env: 'POSTERN_DATA_DIR', sentence: 'Where `npm start` keeps the data of a ZooKeeper of its own.' },
    'a path',
    /./,
    '.data',
  ),
} satisfies Record<string, Setting<unknown>>;

type Table = typeof SETTINGS;

type Values = {
  readonly [K in keyof Table]: Table[K] extends Setting<infer T> ? T : never;
};

/** All settings; `leaseKeys` are those of the variable or of the file. */
export type Config = Omit<Values, 'leaseKeysFile'>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** Says everything that is wrong at once, a sentence each. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

export interface LoadedConfig {
  readonly config: Config;
  /** Sentences for the log: settings that nobody reads, and what runs unprotected. */
  readonly warnings: readonly string[];
}

/** @throws ConfigError */
export function loadConfig(environment: Environment = process.env): LoadedConfig {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(SETTINGS)) {
    values[name] = read(setting, environment[setting.env], problems);
  }
  const { leaseKeysFile, ...own } = values as Values;
  const config: Config = {
    ...own,
    leaseKeys: own.leaseKeys.length > 0 ? own.leaseKeys : leaseKeysFile,
    // No balancer stands before a loopback address.
    drainPauseMs: isLoopback(own.host) && !isSet(environment, SETTINGS.drainPauseMs) ? 0 : own.drainPauseMs,
  };
  problems.push(
    ...contradictions(config, isSet(environment, SETTINGS.leaseKeys) && isSet(environment, SETTINGS.leaseKeysFile)),
  );
  if (problems.length > 0) throw new ConfigError(problems);
  return { config: Object.freeze(config), warnings: [...unknownVariables(environment), ...dangers(config)] };
}

function isSet(environment: Environment, setting: Setting<unknown>): boolean {
  return (environment[setting.env] ?? '') !== '';
}

/** Compose files and charts hand over empty strings for what is not set. */
function read(setting: Setting<unknown>, text: string | undefined, problems: string[]): unknown {
  if (text === undefined || text === '') return setting.fallback;
  const shown = setting.secret ? 'not readable' : JSON.stringify(text);
  try {
    const value = setting.parse(text);
    if (value !== undefined) return value;
    problems.push(`${setting.env} is ${shown}; it must be ${setting.rule}.`);
  } catch (error) {
    problems.push(`${setting.env} is ${shown}: ${(error as Error).message}; it must be ${setting.rule}.`);
  }
  return setting.fallback;
}

function contradictions(config: Config, keysTwice: boolean): string[] {
  const problems: string[] = [];
  if (keysTwice) problems.push('POSTERN_LEASE_KEYS and POSTERN_LEASE_KEYS_FILE are both set; set one of them.');
  if ((config.zookeeperTlsCert === undefined) !== (config.zookeeperTlsKey === undefined)) {
    problems.push('POSTERN_ZOOKEEPER_TLS_CERT and POSTERN_ZOOKEEPER_TLS_KEY belong together; set both or neither.');
  }
  if ((config.tlsCert === undefined) !== (config.tlsKey === undefined)) {
    problems.push('POSTERN_TLS_CERT and POSTERN_TLS_KEY belong together; set both or neither.');
  }
  if (config.tlsClientCa !== undefined && config.tlsCert === undefined) {
    problems.push(
      'POSTERN_TLS_CLIENT_CA needs POSTERN_TLS_CERT and POSTERN_TLS_KEY: without TLS nobody shows a certificate.',
    );
  }
  if (config.oidcIssuer !== undefined && config.oidcAudience.length === 0) {
    problems.push(
      'POSTERN_OIDC_ISSUER needs POSTERN_OIDC_AUDIENCE: a token for somebody else is none for this gateway.',
    );
  }
  if (!isLoopback(config.host) && !hasCredentials(config) && !config.insecure) {
    problems.push(
      `POSTERN_HOST is "${config.host}"; without credentials it must be a loopback address. ` +
        'Set POSTERN_AUTH_FILE or POSTERN_OIDC_ISSUER, or POSTERN_INSECURE=true to let everybody who reaches that address do everything.',
    );
  }
  return problems;
}

function hasCredentials({ authFile, oidcIssuer }: Config): boolean {
  return authFile !== undefined || oidcIssuer !== undefined;
}

function dangers(config: Config): string[] {
  const warnings: string[] = [];
  if (!hasCredentials(config) && config.insecure)
    warnings.push(
      `POSTERN_INSECURE is true and there are no credentials: everybody who reaches ${config.host} may do everything.`,
    );
  for (const address of [config.oidcIssuer, config.oidcJwks]) {
    if (
      address?.startsWith('http:') === true &&
      !isLoopback(/^http:\/\/\[?([^\]/]*?)\]?(:\d+)?(\/|$)/.exec(address)?.[1] ?? '')
    )
      warnings.push(
        `The keys of the identity provider come without TLS from ${address}: whoever is on the way may replace them.`,
      );
  }
  return warnings;
}

function unknownVariables(environment: Environment): string[] {
  const known = new Set(Object.values<Setting<unknown>>(SETTINGS).map(({ env }) => env));
  return Object.keys(environment)
    .filter((name) => name.startsWith('POSTERN_') && !known.has(name))
    .sort()
    .map((name) => `${name} is not a setting and has no effect.`);
}

/** A host, without port and brackets, that only this machine can reach. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(host);
}

function parseLeaseKey(text: string): Buffer | undefined {
  const key = Buffer.from(text, 'base64');
  // Buffer skips what is not base64; a key must say the same when written again.
  const faithful = key.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '');
  return faithful && key.length === LEASE_KEY_BYTES ? key : undefined;
}

function parseOrigin(text: string): string | undefined {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text ? text : undefined;
}

/** For `--help`. */
export function settingsHelp(): string {
  const lines = Object.values<Setting<unknown>>(SETTINGS).map(({ env, sentence, rule, shownFallback }) => {
    const fallback = shownFallback === '' ? '' : ` Default: ${shownFallback}.`;
    return `  ${env}\n      ${sentence}\n      Value: ${rule}.${fallback}`;
  });
  return ['Settings (environment variables; an empty one counts as not set):', ...lines].join('\n');
}

/** For the README. */
export function settingsMarkdown(): string {
  const rows = Object.values<Setting<unknown>>(SETTINGS).map(
    ({ env, sentence, rule, shownFallback }) =>
      `| \`${env}\` | ${shownFallback === '' ? '' : `\`${shownFallback}\``} | ${rule} | ${sentence} |`,
  );
  return ['| variable | default | value | what it does |', '| --- | --- | --- | --- |', ...rows].join('\n');
}
