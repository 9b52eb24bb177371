/** The ensemble, and how it is spoken to. */
import { contentOfFile, flag, integer, optionalMatching, textOfFile, type Setting } from './setting.js';

const PORT = String.raw`0*([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])`;
const SERVER = String.raw`(\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[^\s:,/[\]]+)(:(?!\d{6})${PORT})?`;
const CHROOT = String.raw`(/(?!\.{1,2}(/|$))[^\s/\0]+)*/*`;
/** What `parseConnectString` can read, at the least: what this takes is not refused later, without a name. */
export const CONNECT_STRING = new RegExp(`^${SERVER}(,${SERVER})*${CHROOT}$`);
export const CONNECT_STRING_RULE =
  'host:port,host:port…, with ports from 1 to 65535, and may end in a chroot such as /apps';
const DIGEST_RULE = 'user:password';
const DIGEST = /^[^:]+:.+$/;
/** As much is left for what the ensemble counts itself: numbers up to 2^53 are exact in JSON. */
export const FENCING_FLOOR_MAX = 2 ** 52;

export const ZOOKEEPER = {
  zookeeper: optionalMatching(
    {
      env: 'POSTERN_ZOOKEEPER',
      sentence: 'The ensemble to use; without it, `npm start` starts its own ZooKeeper.',
    },
    CONNECT_STRING_RULE,
    CONNECT_STRING,
  ),
  ensembles: optionalMatching(
    {
      env: 'POSTERN_ENSEMBLES',
      sentence:
        'JSON file of further ensembles and of which namespace lies on which, read again when it changes (docs/deploying.md).',
    },
    'the path of a file',
    /./,
  ),
  fencingFloor: integer(
    {
      env: 'POSTERN_FENCING_FLOOR',
      sentence:
        'After a restore or a move to another ensemble: the highest fencing token there has been. Later ones are higher; the data keep it (docs/runbook.md).',
    },
    { fallback: 0, min: 0, max: FENCING_FLOOR_MAX },
  ),
  zookeeperAuth: optionalMatching(
    {
      env: 'POSTERN_ZOOKEEPER_AUTH',
      sentence: 'Digest credentials for ZooKeeper; new znodes are then accessible only with them.',
      secret: true,
    },
    DIGEST_RULE,
    DIGEST,
  ),
  zookeeperAuthFile: textOfFile(
    { env: 'POSTERN_ZOOKEEPER_AUTH_FILE', sentence: 'File with the value of POSTERN_ZOOKEEPER_AUTH.' },
    `the path of a readable file with ${DIGEST_RULE}`,
    DIGEST,
  ),
  zookeeperTls: flag({ env: 'POSTERN_ZOOKEEPER_TLS', sentence: 'Whether to use TLS to ZooKeeper.' }),
  zookeeperTlsCa: contentOfFile({
    env: 'POSTERN_ZOOKEEPER_TLS_CA',
    sentence: 'PEM file with the certificate authority that signed the certificates of ZooKeeper.',
  }),
  zookeeperTlsCert: contentOfFile({
    env: 'POSTERN_ZOOKEEPER_TLS_CERT',
    sentence: 'PEM file with the certificate to present to ZooKeeper.',
  }),
  zookeeperTlsKey: contentOfFile({
    env: 'POSTERN_ZOOKEEPER_TLS_KEY',
    sentence: 'PEM file with the private key of that certificate.',
  }),
} satisfies Record<string, Setting<unknown>>;
