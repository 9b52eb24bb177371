/**
 * Adds a key's entry to the file of POSTERN_AUTH_FILE. Replicas may read it at any moment: they find it without the
 * entry, or with it, and never half-written.
 */
import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { Credentials } from '../http/access/credentials.js';

const OWNER_ONLY = 0o600;

/**
 * @param file created, readable for its owner alone, if missing; otherwise it keeps its owner and mode
 * @throws Error with a sentence if it cannot be read or written, holds no keys, or has a key with this id
 */
export function addKey(file: string, entry: object): void {
  const target = existsSync(file) ? realpathSync(file) : file; // a link stays one
  const made = `${target}.new`;
  let descriptor: number;
  try {
    // Exclusive: otherwise one of two processes that add a key at the same time would lose its own.
    descriptor = openSync(made, 'wx', OWNER_ONLY);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST')
      throw new Error(`"${made}" is there: another make-key is at work, or was interrupted; then remove it`, {
        cause: error,
      });
    throw new Error(`--file is "${file}", beside which no file can be made (${code})`, { cause: error });
  }
  try {
    const text = withKey(existsSync(target) ? readFileSync(target, 'utf8') : '{"keys":[]}', file, entry);
    if (existsSync(target)) keepOwnerAndMode(target, descriptor);
    writeSync(descriptor, text);
    fsyncSync(descriptor);
    renameSync(made, target);
  } catch (error) {
    rmSync(made, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

/** The gateway may run as another user than the one who makes keys, and could not read a new file of theirs. */
function keepOwnerAndMode(from: string, descriptor: number): void {
  const { uid, gid, mode } = statSync(from);
  const made = fstatSync(descriptor);
  if (made.uid !== uid || made.gid !== gid) fchownSync(descriptor, uid, gid);
  fchmodSync(descriptor, mode & 0o777);
}

function withKey(before: string, file: string, entry: object): string {
  try {
    new Credentials(before);
    const { keys } = JSON.parse(before) as { keys: object[] };
    const after = `${JSON.stringify({ keys: [...keys, entry] }, null, 2)}\n`;
    new Credentials(after); // as the replicas will read it
    return after;
  } catch (error) {
    throw new Error(`--file is "${file}"; nothing was written: ${(error as Error).message}`, { cause: error });
  }
}
