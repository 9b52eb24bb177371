/** What all replicas of one gateway must have the same: where their state lies, and the keys that seal lease tokens. */
import { list, listFile, matching, type Setting } from './setting.js';

const LEASE_KEY_BYTES = 32; // AES-256
const ZNODE_PATH = /^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]{1,200})+$/;
const LEASE_KEYS_RULE = `base64 of exactly ${LEASE_KEY_BYTES} random bytes each, separated by commas`;

export const SHARED = {
  root: matching(
    { env: 'POSTERN_ROOT', sentence: 'Path in ZooKeeper under which everything is stored, below the chroot.' },
    'a path such as /postern',
    ZNODE_PATH,
    '/postern',
  ),
  leaseKeys: list(
    {
      env: 'POSTERN_LEASE_KEYS',
      sentence:
        'Keys that seal lease tokens: the first one seals, all of them open. Without any, the replicas share a key that is created in ZooKeeper.',
      secret: true,
    },
    LEASE_KEYS_RULE,
    parseLeaseKey,
  ),
  leaseKeysFile: listFile(
    { env: 'POSTERN_LEASE_KEYS_FILE', sentence: 'File with the value of POSTERN_LEASE_KEYS.' },
    `the path of a readable file with keys: ${LEASE_KEYS_RULE}`,
    parseLeaseKey,
  ),
} satisfies Record<string, Setting<unknown>>;

function parseLeaseKey(text: string): Buffer | undefined {
  const key = Buffer.from(text, 'base64');
  // Buffer skips what is not base64; a key must say the same when written again.
  const faithful = key.toString('base64').replace(/={1,2}$/, '') === text.replace(/={1,2}$/, '');
  // One byte again and again is a key that was never made: a buffer that nobody filled.
  const isMade = key.some((byte) => byte !== key[0]);
  return faithful && isMade && key.length === LEASE_KEY_BYTES ? key : undefined;
}
