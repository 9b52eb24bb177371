/**
 * Makes an API key: prints the key, which is shown only now, and the entry to put into the file of POSTERN_AUTH_FILE, which holds its hash.
 *
 *   node dist/main.js make-key --id ci-2 --principal ci --namespaces default=read,use --namespaces prod=read
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { hashOf } from '../http/credentials.js';
import { NAME, NAMESPACES, type Namespaces } from '../http/permissions.js';

const KEY_BYTES = 32;

export const MAKE_KEY_USAGE = `make-key --id ID [--principal NAME] [--namespaces NAMESPACE=SCOPE,SCOPE]…
      Prints a new API key, once, and its entry for the file of POSTERN_AUTH_FILE.
      Scopes are read, use and admin; NAMESPACE may be *, and --namespaces '*' alone means everything. Default: default=read,use.`;

/** @returns what to print @throws Error with a sentence about what is wrong with the arguments */
export function makeKey(args: readonly string[]): string {
  const { id, principal, namespaces } = readArguments(args);
  const key = `postern_${randomBytes(KEY_BYTES).toString('base64url')}`;
  const entry = {
    id,
    hash: `sha256:${hashOf(key)}`,
    ...(principal === undefined ? {} : { principal }),
    namespaces,
  };
  return `${key}\n${JSON.stringify(entry, null, 2)}\n`;
}

function readArguments(args: readonly string[]): { id: string; principal: string | undefined; namespaces: Namespaces } {
  const { values } = parseArgs({
    args: [...args],
    options: {
      id: { type: 'string' },
      principal: { type: 'string' },
      namespaces: { type: 'string', multiple: true, default: ['default=read,use'] },
    },
  });
  const { id, principal } = values;
  if (id === undefined) throw new Error('--id is missing; it names the key in the file');
  for (const [option, name] of Object.entries({ id, principal })) {
    if (name !== undefined && !NAME.safeParse(name).success)
      throw new Error(`--${option} is "${name}"; it must be 1 to 200 of A-Z a-z 0-9 . _ ~ -`);
  }
  return { id, principal, namespaces: namespacesOf(values.namespaces) };
}

function namespacesOf(texts: readonly string[]): Namespaces {
  if (texts.length === 1 && texts[0] === '*') return '*';
  const entries = texts.map((text) => {
    const [namespace, scopes, ...rest] = text.split('=');
    const read = NAMESPACES.safeParse({ [namespace as string]: scopes?.split(',') });
    if (!read.success || rest.length > 0)
      throw new Error(`--namespaces is "${text}"; it must be such as default=read,use (of read, use, admin)`);
    return [namespace, scopes?.split(',')];
  });
  return NAMESPACES.parse(Object.fromEntries(entries));
}
