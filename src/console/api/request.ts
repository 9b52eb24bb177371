/** One request to the public API, with the key of this tab, to the origin that the page is from. */
import { Refusal, refusalOf, Unreachable } from './refusal.js';

/** Longer than the gateway lets a request take that does not wait. */
const PATIENCE_MS = 30_000;

export interface Asking {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Below `/v1`, in segments that are encoded here; what begins with `/` is below the root. */
  readonly path: string | readonly string[];
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

export interface Caller {
  readonly key: string;
  readonly namespace: string;
  /** The gateway has answered something that it tells to those with a key alone, if it wants keys. */
  readonly onAccepted: () => void;
}

/**
 * @returns an answer that is good
 * @throws Refusal if the gateway refuses
 * @throws Unreachable if nobody answers
 */
export async function request(caller: Caller, asking: Asking): Promise<Response> {
  const { method = 'GET', body, signal } = asking;
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const isOfApi = typeof asking.path !== 'string';
  const response = await fetchAs(caller, addressOf(asking), {
    method,
    headers: {
      ...(isOfApi ? { Namespace: caller.namespace } : {}),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...asking.headers,
    },
    signal: signal === undefined ? patience : AbortSignal.any([signal, patience]),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw await refusalOf(response, caller.key);
  if (isOfApi) caller.onAccepted();
  return response;
}

export async function requestJson<T>(caller: Caller, asking: Asking): Promise<T> {
  const response = await request(caller, asking);
  try {
    return (response.status === 204 ? undefined : await response.json()) as T;
  } catch (error) {
    throw new Unreachable(error);
  }
}

/** The key goes to this origin alone, in this header alone. */
export async function fetchAs(
  { key }: Pick<Caller, 'key'>,
  address: URL,
  { headers, ...init }: RequestInit & { headers: Record<string, string> },
): Promise<Response> {
  try {
    return await fetch(address, {
      ...init,
      headers: { ...headers, ...(key === '' ? {} : { Authorization: `Bearer ${key}` }) },
      mode: 'same-origin',
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
    });
  } catch (error) {
    throw new Unreachable(error);
  }
}

/** Relative to the page, so that the console also works below a path that a proxy puts in front. */
export function addressOf({ path, query = {} }: Pick<Asking, 'path' | 'query'>): URL {
  // A name that the address would swallow names nothing.
  if (typeof path !== 'string' && path.some((one) => one === '.' || one === '..' || one === '')) {
    const detail = `There can be nothing with the name “${path.slice(1).join('/')}”.`;
    throw new Refusal({ status: 422, code: 'invalid', title: 'No such name', detail });
  }
  const below = typeof path === 'string' ? path.replace(/^\//, '') : ['v1', ...path.map(encodeURIComponent)].join('/');
  const address = new URL(below, document.baseURI);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) address.searchParams.set(name, String(value));
  return address;
}
