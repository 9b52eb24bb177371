/**
 * What settings mean together: which of them contradict each other, and which would let strangers in. Where somebody
 * has to decide that it may be so, it is refused unless POSTERN_INSECURE says that it may; the rest is said in the log.
 */
import { isLoopback } from '../loopback.js';
import type { Config } from './table.js';

/** Sentences about what stops the start. */
export function contradictions(config: Config): string[] {
  return [...halves(config), ...needs(config), ...(config.insecure ? [] : risks(config))];
}

/** Sentences for the log, about what runs unprotected. */
export function dangers(config: Config): string[] {
  return [...(config.insecure ? accepted(config) : []), ...openWays(config)];
}

/** Settings of which one is nothing without the other. */
function halves(config: Config): string[] {
  const problems: string[] = [];
  if ((config.zookeeperTlsCert === undefined) !== (config.zookeeperTlsKey === undefined))
    problems.push('POSTERN_ZOOKEEPER_TLS_CERT and POSTERN_ZOOKEEPER_TLS_KEY belong together; set both or neither.');
  if ((config.tlsCert === undefined) !== (config.tlsKey === undefined))
    problems.push('POSTERN_TLS_CERT and POSTERN_TLS_KEY belong together; set both or neither.');
  return problems;
}

function needs(config: Config): string[] {
  const problems: string[] = [];
  if (config.tlsClientCa !== undefined && config.tlsCert === undefined)
    problems.push(
      'POSTERN_TLS_CLIENT_CA needs POSTERN_TLS_CERT and POSTERN_TLS_KEY: without TLS no client presents a certificate.',
    );
  if (config.oidcIssuer !== undefined && config.oidcAudience.length === 0)
    problems.push(
      'POSTERN_OIDC_ISSUER needs POSTERN_OIDC_AUDIENCE: a token that was issued for another service must not be accepted by this gateway.',
    );
  const { oidcAudience, oidcJwks, oidcRules } = config;
  if (config.oidcIssuer === undefined && (oidcAudience.length > 0 || oidcJwks !== undefined || oidcRules !== undefined))
    problems.push(
      'POSTERN_OIDC_AUDIENCE, POSTERN_OIDC_JWKS and POSTERN_OIDC_RULES need POSTERN_OIDC_ISSUER: without it no token is accepted, and without other credentials everybody is.',
    );
  return problems;
}

/** What POSTERN_INSECURE allows. */
function risks(config: Config): string[] {
  const problems: string[] = [];
  if (!isLoopback(config.host) && !hasCredentials(config))
    problems.push(
      `POSTERN_HOST is "${config.host}"; without credentials it must be a loopback address. ` +
        'Set POSTERN_AUTH_FILE or POSTERN_OIDC_ISSUER, or POSTERN_INSECURE=true to let everybody who can reach that address do everything.',
    );
  if (hasOpenKey(config))
    problems.push(
      `POSTERN_HOST is "${config.host}", and the key that seals lease tokens would be stored in ZooKeeper, readable by everybody who can reach it: they could forge the lease token of any principal. ` +
        'Set POSTERN_ZOOKEEPER_AUTH or POSTERN_LEASE_KEYS (or the file of one of them), or POSTERN_INSECURE=true if nobody else can reach ZooKeeper.',
    );
  if (hasUnusedTls(config))
    problems.push(
      'POSTERN_ZOOKEEPER_TLS_CA, POSTERN_ZOOKEEPER_TLS_CERT and POSTERN_ZOOKEEPER_TLS_KEY need POSTERN_ZOOKEEPER_TLS=true: without it nothing is encrypted.',
    );
  return problems;
}

function accepted(config: Config): string[] {
  const warnings: string[] = [];
  if (!hasCredentials(config))
    warnings.push(
      `POSTERN_INSECURE is true and there are no credentials: everybody who can reach ${config.host} may do everything.`,
    );
  // Without credentials nobody has to make a token to be somebody else.
  else if (hasOpenKey(config))
    warnings.push(
      'POSTERN_INSECURE is true: anyone who can reach ZooKeeper can read the key that seals lease tokens, and forge the lease token of any principal.',
    );
  if (hasUnusedTls(config))
    warnings.push('POSTERN_INSECURE is true: TLS files for ZooKeeper are set, but nothing is encrypted.');
  return warnings;
}

/** Ways over which what is secret goes in the clear. */
function openWays(config: Config): string[] {
  const warnings: string[] = [];
  if (config.zookeeperAuth !== undefined && !config.zookeeperTls && isRemote(config))
    warnings.push(
      'POSTERN_ZOOKEEPER_AUTH is sent to ZooKeeper in the clear: set POSTERN_ZOOKEEPER_TLS, or anyone on the network path can read it.',
    );
  for (const address of [config.oidcIssuer, config.oidcJwks])
    if (
      address?.startsWith('http:') === true &&
      !isLoopback(/^http:\/\/\[?([^\]/]*?)\]?(:\d+)?(\/|$)/.exec(address)?.[1] ?? '')
    )
      warnings.push(
        `The keys of the identity provider are fetched without TLS from ${address}: anyone on the network path can replace them.`,
      );
  return warnings;
}

export function hasCredentials({ authFile, oidcIssuer }: Pick<Config, 'authFile' | 'oidcIssuer'>): boolean {
  return authFile !== undefined || oidcIssuer !== undefined;
}

/**
 * Whether the sealing key lies where everybody who reaches the ensemble reads it; those who are on this machine may.
 */
function hasOpenKey(config: Config): boolean {
  const { host, zookeeperAuth, leaseKeys } = config;
  return !isLoopback(host) && zookeeperAuth === undefined && leaseKeys.length === 0 && isRemote(config);
}

function hasUnusedTls({ zookeeperTls, zookeeperTlsCa, zookeeperTlsCert, zookeeperTlsKey }: Config): boolean {
  return !zookeeperTls && [zookeeperTlsCa, zookeeperTlsCert, zookeeperTlsKey].some((file) => file !== undefined);
}

/** Whether ZooKeeper is, or may be, beyond this machine. */
function isRemote({ zookeeper = '' }: Config): boolean {
  const servers = zookeeper.replace(/\/.*$/, '').split(',');
  return !servers.every((server) => isLoopback(server.replace(/:\d+$/, '').replace(/^\[|\]$/g, '')));
}
