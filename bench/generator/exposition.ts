/** Postern's own metrics, for what no other process can count. */
import { HttpConnection, requestText } from './http-connection.js';
import { parsed } from './lock-clients.js';
import { sleep } from './meter.js';

/** For so long a gateway answers with the page that it has made, and a little more. */
const KEPT_MS = 1_050;
/** By port: when the page was last there, which is after the gateway began it. */
const answeredAt = new Map<number, number>();

/** @returns a page that was made after the call */
export async function metricsOf(port: number): Promise<string> {
  const keptForMs = (answeredAt.get(port) ?? -Infinity) + KEPT_MS - performance.now();
  if (keptForMs > 0) await sleep(keptForMs);
  const http = await HttpConnection.open(port);
  try {
    const { body } = await http.send(requestText('GET', '/metrics', ''));
    answeredAt.set(port, performance.now());
    return body;
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
