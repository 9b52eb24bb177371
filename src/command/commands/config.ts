/** Subcommands for configuration keys. */
import type { WriteOptions } from '../../client/index.js';
import { command } from '../arguments/command.js';
import { isName } from '../arguments/name.js';
import { patience, text, toggle, type Option } from '../arguments/option.js';

const KEY = { name: 'KEY', sentence: 'the key, such as app/db/host' };

/** A hold as the header `Guard` names it. A job of `postern lock` finds the token in its environment. */
const guard: Option<WriteOptions['guard']> = {
  placeholder: 'HOLD',
  sentence: 'Only while this hold stands, such as "lock=NAME;token=$POSTERN_FENCING_TOKEN".',
  expected: 'lock=NAME;token=FENCING_TOKEN, or rwlock=, semaphore= or election= in place of lock=',
  read: (given) => {
    const [, kind, name = '', token] = /^(lock|rwlock|semaphore|election)=([^;]*);token=(\d{1,16})$/.exec(given) ?? [];
    return kind !== undefined && isName(name) ? { kind, name, fencingToken: Number(token) } : undefined;
  },
  absent: undefined,
};

export const get = command({
  name: 'config get',
  summary: 'Print the value of a key, or of several at one moment',
  description: `Prints the bytes as they were put (a JSON value without its white space), without a line end of its own; in a terminal, control characters are written out; with --json also the type and the ETag. A key that \
does not exist is exit code 1, unless --wait waits for it.

Several keys, at most 64, are read as they were at one moment, and printed as one line of JSON each.`,
  arguments: [{ ...KEY, repeated: true }],
  options: { wait: patience('How long to wait for a key that does not exist yet, or forever. Default: 0.') },
  examples: ['postern config get app/db/host', 'postern config get app/db/host app/db/port'],
});

export const put = command({
  name: 'config put',
  summary: 'Write a key',
  description: `Writes VALUE, or what standard input has, and prints the new ETag. If a condition is not met, nothing is written, and \
the exit code is 1.`,
  arguments: [KEY, { name: 'VALUE', sentence: 'the value; standard input if it is left out', optional: true }],
  options: {
    type: text('TYPE', 'The type of the value. Default: text/plain; charset=utf-8, or bytes from standard input.'),
    'if-match': text('ETAG', 'Only if the value has this ETag.'),
    'if-absent': toggle('Only if there is no such key.'),
    guard,
  },
  examples: [
    'postern config put app/db/host db2',
    'postern config put app/settings --type application/json < settings.json',
    'postern lock a -- sh -c \'postern config put done yes --guard "lock=a;token=$POSTERN_FENCING_TOKEN"\'',
  ],
});

export const watch = command({
  name: 'config watch',
  summary: 'Print the value of a key, and again after every change',
  description:
    'Prints a line for the value now and after every change, until it is ended; line ends and other control characters in it are written out. With --json each line also has the ETag.',
  arguments: [KEY],
  options: {},
  examples: ['postern config watch app/db/host'],
});

export const exportKeys = command({
  name: 'config export',
  summary: 'Print keys with their values, for config import',
  description: `Prints a line of JSON for each key that begins with PREFIX, in order, with its type, its ETag and its value: bytes in base64, JSON as \
it is, without its white space. Keys are read 64 at a time; those that are read together are of one moment.`,
  arguments: [
    { name: 'PREFIX', sentence: 'the begin of the keys, such as app/; all keys if it is left out', optional: true },
  ],
  options: {},
  examples: ['postern config export app/ > app.jsonl'],
});

export const importKeys = command({
  name: 'config import',
  summary: 'Write the keys that config export printed',
  description: `Writes the keys in FILE whose value or type is another one there. Other keys stay as they are. Each line of FILE is JSON, with key, value or \
valueBase64, and contentType if that is not the usual one; an etag is not looked at.

Up to 100 keys are written together, all or none, and only if none of them has changed since this command read it. \
If one has, it ends with exit code 1 and says which keys it has written; started again, it writes the rest.`,
  arguments: [{ name: 'FILE', sentence: 'the lines; standard input if it is left out', optional: true }],
  options: {
    'dry-run': toggle('Write nothing; say what would be written.'),
    guard,
  },
  examples: [
    'postern config import app.jsonl --dry-run',
    'postern config export app/ --namespace a | postern config import --namespace b',
  ],
});
