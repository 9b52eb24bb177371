/**
 * Asks the replica beside it how it is, where there is neither a shell nor curl: exit code 0 when it answers 200.
 *
 *   node scripts/probe.mjs            is the process alive? (/healthz)
 *   node scripts/probe.mjs /readyz    may it take traffic?
 *
 * It finds the replica by the same settings, and speaks TLS if the replica does; where that wants certificates of
 * clients, POSTERN_OPS_PORT has to be set, which has neither. Kubernetes cannot probe a port that is bound to loopback
 * from outside the pod.
 */
import { ask, clientsUrl, probeUrl } from './lib/replica-here.mjs';

const ANSWERS_WITHIN_MS = 3_000;

const url = `${probeUrl(process.env) ?? clientsUrl(process.env)}${process.argv[2] ?? '/healthz'}`;

try {
  const { status, text } = await ask(url, ANSWERS_WITHIN_MS);
  if (status !== 200) throw new Error(`${status} ${text}`);
} catch (error) {
  const { message, cause } = /** @type {Error} */ (error);
  console.error(`${url}: ${cause instanceof Error ? cause.message : message}`);
  process.exitCode = 1;
}
