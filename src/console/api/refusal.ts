/** Why a request was not answered as wished. */
import type { Problem } from './contract.js';

/** A problem of the contract, or what stands in its place when something else answered. */
export type Refused = Pick<Problem, 'status' | 'code' | 'title' | 'detail'> & Partial<Problem>;

/** The gateway has answered, and refused. */
export class Refusal extends Error {
  constructor(readonly problem: Refused) {
    super(problem.detail);
  }

  /** Without its scope: `admin on the lock "a"`. */
  get missingScope(): string | undefined {
    const { code, scope, kind, name } = this.problem;
    if (code !== 'forbidden' || scope === undefined) return undefined;
    return `the scope “${scope}” on ${name === undefined ? `${kind ?? 'thing'}s` : `the ${kind ?? 'thing'} “${name}”`}`;
  }
}

/** Nobody answered, or what came was cut off. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super('The gateway does not answer.', { cause });
  }
}

/** Reads the problem of an answer that failed. */
export async function refusalOf(response: Response): Promise<Refusal> {
  const { status, statusText } = response;
  try {
    const problem = (await response.json()) as Refused;
    if (typeof problem.code === 'string') return new Refusal({ ...problem, status });
  } catch {
    // Not of the gateway: something between it and this page.
  }
  const title = statusText === '' ? `HTTP ${status}` : statusText;
  return new Refusal({
    status,
    code: 'unknown',
    title,
    detail: `Something between here and the gateway says ${title}.`,
  });
}
