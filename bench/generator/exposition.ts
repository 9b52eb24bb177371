/** Postern's own metrics, for what no other process can count. */
import { HttpConnection, requestText } from './http-connection.js';
import { parsed } from './lock-clients.js';

export async function metricsOf(port: number): Promise<string> {
  const http = await HttpConnection.open(port);
  try {
    return (await http.send(requestText('GET', '/metrics', ''))).body;
  } finally {
    http.close();
  }
}

/** Over all labels that contain `label`. */
export function sumOf(metrics: string, name: string, label = ''): number {
  let sum = 0;
  for (const line of metrics.split('\n')) {
    if (!line.startsWith(name)) continue;
    const [, labels = '', value] = /^[a-z_]+(\{.*\})? (\S+)$/.exec(line) ?? [];
    const exact = line.startsWith(`${name} `) || line.startsWith(`${name}{`);
    if (exact && labels.includes(label)) sum += Number(value);
  }
  return sum;
}

export async function getJson(http: HttpConnection, path: string, headers: string): Promise<unknown> {
  return parsed(await http.send(requestText('GET', path, headers)), 200);
}
