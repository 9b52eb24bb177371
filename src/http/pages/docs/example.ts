/** The requests of an operation that a reader can try: one for each example of its body. */
import { ANY_TYPE, type Operation, type Parameter } from '../../contract/openapi.js';
import { escapeHtml } from '../page.js';
import { curlLine, type Line } from './curl.js';

/** Where a page is not yet told by its script where it comes from: as `npm start` serves it. */
const ORIGIN = 'http://localhost:7070';

export interface Example extends Omit<Line, 'origin' | 'headers'> {
  /** What it shows, where an operation has several. */
  readonly summary: string | undefined;
  /** Sent for a lease. */
  readonly needsLease: boolean;
}

export function examplesOf(operation: Operation): Example[] {
  const { method, template, parameters, source } = operation;
  const query = parameters
    .filter((one) => one.in === 'query' && one.required === true)
    .map(({ name }) => `${name}=${exampleOf(parameters, name)}`)
    .join('&');
  const path = template.replace(/\{(\w+)\}/g, (_whole, name: string) => exampleOf(parameters, name));
  const token = parameters.find(({ name }) => name === 'Lease-Token');
  const common = {
    method,
    path: query === '' ? path : `${path}?${query}`,
    isRaw: operation.body === 'raw',
    isStream: source.responses['200'] !== undefined && template.endsWith('/events'),
  };
  return bodiesOf(operation).map(({ summary, value }) => ({
    ...common,
    summary,
    body: value === undefined || operation.body === 'raw' ? (value as string | undefined) : JSON.stringify(value),
    // Where it is optional, a body names another lease, or the operation only reads.
    needsLease: token?.required === true || (token !== undefined && method !== 'GET' && !hasLease(value)),
  }));
}

function hasLease(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'lease' in body;
}

function bodiesOf({ source }: Operation): { summary?: string; value?: unknown }[] {
  const { [ANY_TYPE]: raw, 'application/json': json } = source.requestBody?.content ?? {};
  if (raw !== undefined) return [{ value: raw.example }];
  const examples = Object.values(json?.examples ?? {});
  return examples.length > 0 ? examples : [{ value: json?.example }];
}

function exampleOf(parameters: readonly Parameter[], name: string): string {
  const example = parameters.find((one) => one.name === name)?.example;
  return typeof example === 'string' || typeof example === 'number' ? String(example) : name;
}

/**
 * The line, with what the script needs to run it. A request that is not to be repeated, takes something away, or needs
 * the rights of an administrator asks first.
 */
export function exampleBox(operation: Operation, example: Example): string {
  const { method, path, body, isRaw, isStream, needsLease, summary } = example;
  const asks = method !== 'GET' && (method === 'DELETE' || operation.scopes.includes('admin') || !operation.retryable);
  const attributes = [
    `data-method="${method}"`,
    `data-path="${escapeHtml(path)}"`,
    ...(body === undefined ? [] : [`data-body="${escapeHtml(body)}"`]),
    ...(operation.body === undefined ? [] : ['data-takes-body']),
    ...(isRaw ? ['data-raw'] : []),
    ...(isStream ? ['data-stream'] : []),
    ...(needsLease ? ['data-lease'] : []),
    ...(asks ? ['data-asks'] : []),
  ];
  const line = curlLine({ ...example, origin: ORIGIN, headers: needsLease ? ['Lease-Token: $TOKEN'] : [] });
  const caption = summary === undefined ? '' : `<p class="caption">${escapeHtml(summary)}</p>`;
  return `${caption}<div class="try" ${attributes.join(' ')}><pre><code>${escapeHtml(line)}</code></pre></div>`;
}
