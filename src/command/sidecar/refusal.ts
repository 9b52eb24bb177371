/** What the program is answered in place of what it asked for. */
import { PosternError } from '../../client/errors.js';

export class Refusal extends Error {
  /** @param code as in the problems of the gateway */
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    /** Further members of the answer. */
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail);
  }
}

/** What a gateway has refused is answered as it was; its silence with 503. @returns undefined for mistakes of ours */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  if (!(error instanceof PosternError)) return undefined;
  const { status, code, message, problem } = error;
  if (status === 0) return new Refusal(503, code, message);
  return new Refusal(status, code, message, problem);
}
