import type { IncomingMessage } from 'node:http';

/**
 * Whether it is unclear where the body ends, and so what follows on the connection. RFC 9112, section 6.1: with a
 * further coding the body would be misread, and HTTP/1.0 knows no codings. Node rejects one whose last is not chunked.
 */
export function endsUnclearly({ headers, httpVersion }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding'];
  return coding !== undefined && (httpVersion === '1.0' || coding.includes(','));
}
