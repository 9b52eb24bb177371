/** API keys of a test: a file for POSTERN_AUTH_FILE, and clients that present a key with every request. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Dispatcher } from 'undici';
import type { Namespaces } from '../../../src/http/access/permissions.js';
import { Client, type CallOptions, type Reply } from './client.js';

export interface ApiKeys extends AsyncDisposable {
  /** For POSTERN_AUTH_FILE. */
  readonly file: string;
  /** A client of the replica at `url` that is this principal. */
  as(principal: string, url: string): KeyedClient;
  /**
   * Writes the file anew: these of the principals keep their key, with what they may do now; the others have none any
   * more.
   */
  leave(principals: Record<string, Namespaces>): Promise<void>;
}

/**
 * A key for each principal, with what it may do in which namespace.
 * @param principalOf for several keys of one principal: whose key it is
 */
export async function makeApiKeys(
  principals: Record<string, Namespaces>,
  principalOf: (id: string) => string = (id) => id,
): Promise<ApiKeys> {
  const dir = await mkdtemp(join(tmpdir(), 'postern-keys-'));
  const file = join(dir, 'keys.json');
  const secrets = new Map(Object.keys(principals).map((id) => [id, randomBytes(32).toString('base64url')]));
  const leave = async (left: Record<string, Namespaces>): Promise<void> => {
    const keys = Object.entries(left).map(([id, namespaces]) => ({
      id,
      principal: principalOf(id),
      hash: `sha256:${createHash('sha256')
        .update(secrets.get(id) as string)
        .digest('hex')}`,
      namespaces,
    }));
    await writeFile(`${file}.new`, JSON.stringify({ keys }));
    await rename(`${file}.new`, file);
  };
  await leave(principals);
  return {
    file,
    leave,
    as(principal, url) {
      const secret = secrets.get(principal);
      if (secret === undefined) throw new Error(`there is no key of ${principal}`);
      return new KeyedClient(url, secret);
    },
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

export class KeyedClient extends Client {
  constructor(
    url: string,
    readonly key: string,
  ) {
    super(url);
  }

  override call(method: Dispatcher.HttpMethod, path: string, options: CallOptions = {}): Promise<Reply> {
    return super.call(method, path, {
      ...options,
      headers: { authorization: `Bearer ${this.key}`, ...options.headers },
    });
  }
}
