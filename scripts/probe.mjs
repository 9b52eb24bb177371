/**
 * Asks the replica beside it how it is, where there is neither a shell nor curl: exit code 0 when it answers 200.
 *
 *   node scripts/probe.mjs            is the process alive? (/healthz)
 *   node scripts/probe.mjs /readyz    may it take traffic?
 *
 * It finds the replica by the same settings, and speaks TLS if the replica does; where that wants certificates of clients, POSTERN_OPS_PORT
 * has to be set, which has neither. Kubernetes cannot probe a port that is bound to loopback from outside the pod.
 */
import { get as getPlain } from 'node:http';
import { get as getTls } from 'node:https';

const ANSWERS_WITHIN_MS = 3_000;
const EVERY_ADDRESS = { '0.0.0.0': '127.0.0.1', '::': '::1' };

const { env } = process;
const path = process.argv[2] ?? '/healthz';
const setHost = env['POSTERN_HOST'] || '127.0.0.1';
const host = EVERY_ADDRESS[setHost] ?? setHost;
const port = env['POSTERN_OPS_PORT'] || env['POSTERN_PORT'] || '7070';
const isTls = Boolean(env['POSTERN_TLS_CERT']) && !env['POSTERN_OPS_PORT'];
const url = `${isTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}${path}`;

try {
  const { status, text } = await ask();
  if (status !== 200) throw new Error(`${status} ${text}`);
} catch (error) {
  const { message, cause } = /** @type {Error} */ (error);
  console.error(`${url}: ${cause instanceof Error ? cause.message : message}`);
  process.exitCode = 1;
}

/** Who answers is not in doubt: it is this machine, which its certificate does not name. */
function ask() {
  const options = { signal: AbortSignal.timeout(ANSWERS_WITHIN_MS), rejectUnauthorized: false };
  return new Promise((resolve, reject) => {
    (isTls ? getTls : getPlain)(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (/** @type {string} */ part) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode, text }));
    }).on('error', reject);
  });
}
