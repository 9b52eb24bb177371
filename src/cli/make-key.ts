/**
 * Makes an API key: prints the key, which is shown only now, and adds its entry, which holds the hash, to the file of
 * POSTERN_AUTH_FILE. Without `--file` it prints the entry too.
 *
 *   node dist/main.js make-key --file keys.json --id ci-2 --principal ci --namespaces default=read,use \
 *     --namespaces prod=read
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { API_KEY_PREFIX, hashOf } from '../http/access/credentials.js';
import { NAME, NAMESPACES, type Namespaces } from '../http/access/permissions.js';
import { addKey } from './add-key.js';

const KEY_BYTES = 32;

export const MAKE_KEY_USAGE = `make-key --id ID [--file FILE] [--principal NAME] [--namespaces NAMESPACE=SCOPE,SCOPE]…
      Prints a new API key, once, and adds its entry to FILE, that of POSTERN_AUTH_FILE, which is made if need be. Without --file it prints the entry.
      Scopes are read, use and admin; NAMESPACE may be *, and --namespaces '*' alone means everything. Default: default=read,use.`;

/** Wrong usage. */
export class UsageError extends Error {}

/**
 * @returns the text to print
 * @throws UsageError with a sentence about what is wrong with the arguments; Error if the file cannot be used
 */
export function makeKey(args: readonly string[]): string {
  const { id, file, principal, namespaces } = argumentsFrom(args);
  const key = `${API_KEY_PREFIX}${randomBytes(KEY_BYTES).toString('base64url')}`;
  const entry = {
    id,
    hash: `sha256:${hashOf(key)}`,
    ...(principal === undefined ? {} : { principal }),
    namespaces,
  };
  if (file !== undefined) {
    addKey(file, entry);
    return `${key}\n`;
  }
  return `${key}\n${JSON.stringify(entry, null, 2)}\n`;
}

interface Arguments {
  id: string;
  file: string | undefined;
  principal: string | undefined;
  namespaces: Namespaces;
}

/** @throws UsageError */
function argumentsFrom(args: readonly string[]): Arguments {
  try {
    return readArguments(args);
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}

function readArguments(args: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...args],
    options: {
      id: { type: 'string' },
      file: { type: 'string' },
      principal: { type: 'string' },
      namespaces: { type: 'string', multiple: true, default: ['default=read,use'] },
    },
  });
  const { id, file, principal } = values;
  if (id === undefined) throw new Error('--id is missing; it names the key in the file');
  for (const [option, name] of Object.entries({ id, principal })) {
    if (name !== undefined && !NAME.safeParse(name).success)
      throw new Error(`--${option} is "${name}"; it must be 1 to 200 of A-Z a-z 0-9 . _ ~ -`);
  }
  return { id, file, principal, namespaces: namespacesOf(values.namespaces) };
}

function namespacesOf(texts: readonly string[]): Namespaces {
  if (texts.length === 1 && texts[0] === '*') return '*';
  const entries = texts.map((text) => {
    const [namespace, scopes, ...rest] = text.split('=');
    const read = NAMESPACES.safeParse({ [namespace as string]: scopes?.split(',') });
    if (!read.success || rest.length > 0)
      throw new Error(`--namespaces is "${text}"; it must look like default=read,use (of read, use, admin)`);
    return [namespace, scopes?.split(',')];
  });
  return NAMESPACES.parse(Object.fromEntries(entries));
}
