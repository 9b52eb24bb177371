/** What the refusals of a gateway, and its silence, mean to whoever typed the command. */
import { PosternError } from '../client/errors.js';
import { EXIT, Failure } from './exit.js';

const PERMISSION = ['unauthenticated', 'forbidden', 'invalid-lease-token', 'invalid-reservation-token'];
const USAGE = ['invalid', 'malformed', 'too-large', 'uri-too-long', 'headers-too-large'];

export function failureOf(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof PosternError) return ofGateway(error);
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return new Failure(EXIT.unexpected, text, {}, { cause: error });
}

function ofGateway(error: PosternError): Failure {
  const { code, status, problem } = error;
  const details = { code, status, ...(problem && { problem }) };
  const failed = (exitCode: number, sentence: string): Failure =>
    new Failure(exitCode, sentence, details, { cause: error });
  if (status === 0 && code !== 'unreachable') return failed(EXIT.notAcquired, `${error.message} (${code})`);
  if (status === 0) return failed(EXIT.noGateway, `no gateway: ${error.message}`);
  if (problem === undefined && status < 300) return failed(EXIT.unexpected, `not understood: ${error.message}`);
  if (problem === undefined) return failed(EXIT.noGateway, `what answers there is no gateway: ${error.message}`);
  if (PERMISSION.includes(code))
    return failed(EXIT.noPermission, `the credential does not allow this: ${error.message}`);
  if (USAGE.includes(code)) return failed(EXIT.usage, inWords(error.message, problem));
  if (status === 404 && code === 'not-found') return failed(EXIT.refused, error.message);
  if (status === 429 || status >= 500) return failed(EXIT.notAcquired, `${error.message} (${code})`);
  return failed(EXIT.refused, `${error.message} (${code})`);
}

function inWords(detail: string, { field }: Readonly<Record<string, unknown>>): string {
  return typeof field === 'string' ? `the gateway does not take this ${field}: ${detail}` : detail;
}
