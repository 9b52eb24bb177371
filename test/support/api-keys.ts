/** API keys of a test: a file for POSTERN_AUTH_FILE, and clients that present a key with every request. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Dispatcher } from 'undici';
import type { Namespaces } from '../../src/http/permissions.js';
import { Client, type CallOptions, type Reply } from './client.js';

export interface ApiKeys extends AsyncDisposable {
  /** For POSTERN_AUTH_FILE. */
  readonly file: string;
  /** A client of the replica at `url` that is this principal. */
  as(principal: string, url: string): KeyedClient;
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
  const keys = Object.entries(principals).map(([id, namespaces]) => ({
    id,
    principal: principalOf(id),
    hash: `sha256:${createHash('sha256')
      .update(secrets.get(id) as string)
      .digest('hex')}`,
    namespaces,
  }));
  await writeFile(file, JSON.stringify({ keys }));
  return {
    file,
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
