/**
 * Asks the replica beside it how it is, where there is neither a shell nor curl: exit code 0 when it answers 200.
 *
 *   node scripts/probe.mjs            is the process alive? (/healthz)
 *   node scripts/probe.mjs /readyz    may it take traffic?
 *
 * It finds the replica by the same settings. Kubernetes cannot probe a port that is bound to loopback from outside the pod.
 */
const ANSWERS_WITHIN_MS = 3_000;
const EVERY_ADDRESS = { '0.0.0.0': '127.0.0.1', '::': '::1' };

const { env } = process;
const path = process.argv[2] ?? '/healthz';
const setHost = env['POSTERN_HOST'] || '127.0.0.1';
const host = EVERY_ADDRESS[setHost] ?? setHost;
const port = env['POSTERN_OPS_PORT'] || env['POSTERN_PORT'] || '7070';
const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}${path}`;

try {
  const response = await fetch(url, { signal: AbortSignal.timeout(ANSWERS_WITHIN_MS) });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
} catch (error) {
  const { message, cause } = /** @type {Error} */ (error);
  console.error(`${url}: ${cause instanceof Error ? cause.message : message}`);
  process.exitCode = 1;
}
