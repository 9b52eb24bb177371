/** Where clients connect. */
import { flag, integer, matching, optionalInteger, optionalMatching, type Setting } from './setting.js';

export const LISTENER = {
  host: matching(
    {
      env: 'POSTERN_HOST',
      sentence:
        'Address to listen on. An address that is not loopback requires credentials for callers (POSTERN_AUTH_FILE or POSTERN_OIDC_ISSUER) and POSTERN_ZOOKEEPER_AUTH or POSTERN_LEASE_KEYS, or else POSTERN_INSECURE.',
    },
    'a host name or an address',
    /^[A-Za-z0-9.:%_-]+$/,
    '127.0.0.1',
  ),
  port: integer(
    { env: 'POSTERN_PORT', sentence: 'Port to listen on; 0 picks any free port.' },
    { fallback: 7070, min: 0, max: 65_535 },
  ),
  opsPort: optionalInteger(
    {
      env: 'POSTERN_OPS_PORT',
      sentence:
        'Separate port for /healthz, /readyz and /metrics; /metrics, and the reasons of /readyz, are then served only there. 0 picks any free port.',
    },
    { min: 0, max: 65_535 },
  ),
  console: flag(
    {
      env: 'POSTERN_CONSOLE',
      sentence: 'Whether the web console is served at /console. It may do what the key that is entered there may do.',
    },
    true,
  ),
  tlsCert: optionalMatching(
    {
      env: 'POSTERN_TLS_CERT',
      sentence:
        'PEM file with the certificate and the intermediate certificates: the main port then accepts only TLS. Read again when it changes.',
    },
    'the path of a file',
    /./,
  ),
  tlsKey: optionalMatching(
    { env: 'POSTERN_TLS_KEY', sentence: 'PEM file with the private key of that certificate.' },
    'the path of a file',
    /./,
  ),
  tlsClientCa: optionalMatching(
    {
      env: 'POSTERN_TLS_CLIENT_CA',
      sentence:
        'PEM file with the certificate authority of clients: the main port then refuses connections without a certificate signed by it.',
    },
    'the path of a file',
    /./,
  ),
} satisfies Record<string, Setting<unknown>>;
