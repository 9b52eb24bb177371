/** Requests about configuration keys, as the tests of them send them. */
import type { Client, Reply } from '../../support/http/client.js';

export interface KeyOptions {
  type?: string;
  headers?: Record<string, string>;
  leaseToken?: string;
}

export function put(client: Client, key: string, value: string | Buffer, options: KeyOptions = {}): Promise<Reply> {
  const { type = 'text/plain', headers = {}, ...others } = options;
  return client.call('PUT', pathOf(key), { body: value, headers: { 'content-type': type, ...headers }, ...others });
}

export function get(client: Client, key: string, query = '', headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('GET', `${pathOf(key)}${query}`, { headers });
}

export function remove(client: Client, key: string, headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('DELETE', pathOf(key), { headers });
}

/** Several writes in one. */
export function write(client: Client, operations: unknown, headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('POST', '/v1/config', { body: { operations }, headers });
}

/** Several keys at one moment. */
export function readTogether(
  client: Client,
  keys: readonly string[],
  headers: Record<string, string> = {},
): Promise<Reply> {
  return client.call('POST', '/v1/config/read', { body: { keys }, headers });
}

/** Puts, and fails the test when that is refused. @returns the ETag, with its quotes */
export async function etagOfPut(client: Client, key: string, value: string, options?: KeyOptions): Promise<string> {
  const { status, headers, body } = await put(client, key, value, options);
  if (status !== 200 && status !== 201) throw new Error(`${key} was not put: ${status} ${JSON.stringify(body)}`);
  return String(headers['etag']);
}

/** The keys of a prefix, of all pages. */
export async function keysOf(client: Client, prefix = '', limit = 1_000): Promise<string[]> {
  const keys: string[] = [];
  let token = '';
  do {
    const page = (await client.expect(200, 'GET', `/v1/config?prefix=${prefix}&limit=${limit}${token}`)) as {
      items: { key: string }[];
      nextPageToken?: string;
    };
    keys.push(...page.items.map(({ key }) => key));
    token = page.nextPageToken === undefined ? '' : `&pageToken=${page.nextPageToken}`;
  } while (token !== '');
  return keys;
}

function pathOf(key: string): string {
  return `/v1/config/${key}`;
}
