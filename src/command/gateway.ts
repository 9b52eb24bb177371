/** Where the gateway is and who is calling, from flags and the environment; and what its refusals mean to a user. */
import { readFileSync } from 'node:fs';
import type { PosternOptions } from '../client/options.js';
import { NAME_EXPECTED, isName } from './arguments/name.js';
import type { CommonValues } from './arguments/command.js';
import { EXIT, Failure, UsageError } from './exit.js';

const DEFAULT_URL = 'http://127.0.0.1:7070';
/** What may stand in a header: of API keys and of JWTs. */
const CREDENTIAL = /^[A-Za-z0-9._~+/=-]+$/;

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * @param environment read for what no flag says
 * @throws UsageError that names the flag or the variable; Failure if the credential cannot be read
 */
export function clientOptions(values: CommonValues, environment: Environment): PosternOptions {
  const credential = credentialOf(values, environment);
  const namespace = values.namespace ?? (environment['POSTERN_NAMESPACE'] || undefined);
  if (namespace !== undefined && !isName(namespace))
    throw new UsageError(
      `${values.namespace === undefined ? 'POSTERN_NAMESPACE' : '--namespace'} is "${namespace}"; it must be ${NAME_EXPECTED}`,
    );
  const tls = tlsOf(values, environment);
  return {
    urls: urlsOf(values, environment),
    ...(credential !== undefined && { credential }),
    ...(namespace !== undefined && { namespace }),
    ...(tls !== undefined && { tls }),
    patienceMs: values.timeout,
  };
}

export function urlsOf({ url }: CommonValues, environment: Environment): string[] {
  const source = url.length > 0 ? '--url' : 'POSTERN_URL';
  const urls = url.length > 0 ? url : (environment['POSTERN_URL'] ?? '').split(/[\s,]+/).filter((each) => each !== '');
  for (const each of urls) {
    if (!URL.canParse(each) || !/^https?:$/.test(new URL(each).protocol))
      throw new UsageError(`${source} is "${each}"; it must look like http://postern:7070`);
  }
  return urls.length === 0 ? [DEFAULT_URL] : [...urls];
}

/** A file is read for each request, so that a key can be changed while a job runs. */
function credentialOf(values: CommonValues, environment: Environment): PosternOptions['credential'] {
  const named = values['api-key-file'];
  const file = named ?? (environment['POSTERN_API_KEY_FILE'] || undefined);
  if (file !== undefined) {
    const source = named === undefined ? 'POSTERN_API_KEY_FILE' : '--api-key-file';
    const read = (): string => checked(`the first line of ${source}`, firstLine(file, source));
    read();
    return read;
  }
  const key = environment['POSTERN_API_KEY'] || undefined;
  return key === undefined ? undefined : checked('POSTERN_API_KEY', key);
}

/** @throws Failure if it cannot be read */
export function firstLine(path: string, source: string): string {
  return readNamed(path, source).toString().split('\n', 1)[0]?.trim() ?? '';
}

/** The text itself is a secret, and not repeated. */
function checked(source: string, key: string): string {
  if (CREDENTIAL.test(key)) return key;
  throw new Failure(EXIT.noPermission, `${source} is no API key: letters, digits and . _ ~ + / = - make one`);
}

function tlsOf(values: CommonValues, environment: Environment): PosternOptions['tls'] {
  const read = (flag: 'ca-file' | 'cert-file' | 'key-file', variable: string): Buffer | undefined => {
    const path = values[flag] ?? (environment[variable] || undefined);
    return path === undefined ? undefined : readNamed(path, values[flag] === undefined ? variable : `--${flag}`);
  };
  const ca = read('ca-file', 'POSTERN_CA_FILE');
  const cert = read('cert-file', 'POSTERN_CERT_FILE');
  const key = read('key-file', 'POSTERN_KEY_FILE');
  if ((cert === undefined) !== (key === undefined))
    throw new UsageError('--cert-file and --key-file belong together, and only one of them is given');
  if (ca === undefined && cert === undefined) return undefined;
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}

function readNamed(path: string, source: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Failure(
      EXIT.noPermission,
      `${source} is "${path}", which cannot be read (${code})`,
      {},
      { cause: error },
    );
  }
}
