/** The program beside the sidecar, as small as one can be: it says how it is, and what its hooks have told it. */
import { createServer } from 'node:http';

const [port = '0'] = process.argv.slice(2);
/** The status that each path is answered with. */
const statuses: Record<string, number> = { '/healthz': 200, '/elected': 200, '/lost': 200, '/rendered': 200 };
const told: unknown[] = [];

createServer((request, response) => {
  let text = '';
  request.on('data', (chunk: Buffer) => (text += chunk.toString()));
  request.on('end', () => {
    const path = request.url ?? '';
    const body = text === '' ? undefined : (JSON.parse(text) as Record<string, number>);
    if (path === '/statuses') Object.assign(statuses, body);
    else if (body !== undefined) told.push(body);
    response.writeHead(path === '/told' || path === '/statuses' ? 200 : (statuses[path] ?? 404));
    response.end(JSON.stringify(told));
  });
}).listen(Number(port), '127.0.0.1', () => console.log('listening'));
