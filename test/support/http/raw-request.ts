/** A request whose target goes out byte for byte: other clients tidy up `..`, `%41` and the like before they send. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { Reply } from './client.js';
import { expectContract } from './contract.js';

export interface RawOptions {
  body?: string;
  headers?: Record<string, string>;
}

export async function rawRequest(
  url: string,
  method: string,
  target: string,
  { body, headers = {} }: RawOptions = {},
): Promise<Reply> {
  const { hostname, port } = new URL(url);
  const outgoing = request({ hostname, port, method, path: target, headers, agent: false });
  outgoing.end(body);
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  response.setEncoding('utf8');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  const isJson = String(response.headers['content-type'] ?? '').includes('json');
  const parsed: unknown = text === '' ? undefined : isJson ? JSON.parse(text) : text;
  const reply: Reply = { status: response.statusCode ?? 0, headers: response.headers, body: parsed };
  expectContract(method, target, reply);
  return reply;
}
