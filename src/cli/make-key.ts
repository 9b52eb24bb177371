/**
 * Makes an API key: prints the key, which is shown only now, and the entry to put into the file of POSTERN_AUTH_FILE.
 *
 *   node dist/cli/make-key.js <id> [namespace]
 */
import { randomBytes } from 'node:crypto';
import { hashOf } from '../http/credentials.js';

const KEY_BYTES = 32;
const NAME = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/;

const [id, namespace = 'default'] = process.argv.slice(2);

if (id === undefined || ![id, namespace].every((name) => NAME.test(name))) {
  process.stderr.write('Usage: make-key <id> [namespace]; both are names of 1 to 200 of A-Z a-z 0-9 . _ ~ -\n');
  process.exitCode = 1;
} else {
  const key = `postern_${randomBytes(KEY_BYTES).toString('base64url')}`;
  const entry = { id, hash: `sha256:${hashOf(key).toString('hex')}`, namespaces: { [namespace]: ['read', 'use'] } };
  process.stdout.write(`${key}\n${JSON.stringify(entry, null, 2)}\n`);
}
