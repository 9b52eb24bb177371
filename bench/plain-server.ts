/** What node:http alone costs: answers every request with the bytes of the message that it got. */
import { createServer } from 'node:http';

export interface PlainAnswer {
  readonly headers: Record<string, string>;
  readonly body: string;
}

process.once('message', ({ headers, body }: PlainAnswer) => {
  const server = createServer((_request, response) => {
    response.writeHead(200, headers);
    response.end(body);
  });
  server.keepAliveTimeout = 75_000;
  server.listen(0, '127.0.0.1', () => process.send?.(server.address()));
});
