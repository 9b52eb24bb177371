/** Why a request was not answered as wished. */
import type { Problem } from './contract.js';

/** Kinds of which there is no plural. */
const ALL_OF: Readonly<Record<string, string>> = {
  config: 'the configuration',
  contention: 'where requests wait',
  status: 'the status',
};

/** A problem of the contract, or what stands in its place when something else answered. */
export type Refused = Pick<Problem, 'status' | 'code' | 'title' | 'detail'> & Partial<Problem>;

/** The gateway has answered, and refused. */
export class Refusal extends Error {
  /** @param key which the request was sent with */
  constructor(
    readonly problem: Refused,
    readonly key?: string,
  ) {
    super(problem.detail);
  }

  /** Without its scope: `admin on the lock "a"`. */
  get missingScope(): string | undefined {
    const { code, scope, kind = 'thing', name } = this.problem;
    if (code !== 'forbidden' || scope === undefined) return undefined;
    return `the scope “${scope}” on ${name === undefined ? (ALL_OF[kind] ?? `${kind}s`) : `the ${kind} “${name}”`}`;
  }
}

/** The key is accepted, and may not. */
export function isForbidden(error: unknown): error is Refusal {
  return error instanceof Refusal && error.problem.code === 'forbidden';
}

/** Nobody answered, or what came was cut off. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super('The gateway does not answer.', { cause });
  }
}

/**
 * Reads the problem of an answer that failed.
 * @param key which the request was sent with
 */
export async function refusalOf(response: Response, key: string): Promise<Refusal> {
  const { status, statusText } = response;
  try {
    const problem = (await response.json()) as Refused;
    if (typeof problem.code === 'string') return new Refusal({ ...problem, status }, key);
  } catch {
    // Not of the gateway: something between it and this page.
  }
  const title = statusText === '' ? `HTTP ${status}` : statusText;
  const problem = {
    status,
    code: 'unknown',
    title,
    detail: `Something between here and the gateway says ${title}.`,
  };
  return new Refusal(problem, key);
}
