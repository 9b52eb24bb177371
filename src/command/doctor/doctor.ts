/** `postern doctor`: every step from the name of a gateway to a lock. */
import { hostname } from 'node:os';
import { notOfGateway } from '../../client/errors.js';
import { Postern, PosternError, type PosternOptions } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { showDuration } from '../arguments/duration.js';
import { checkName } from '../arguments/name.js';
import type { doctor as description } from '../commands/self.js';
import { environment } from '../environment.js';
import { EXIT } from '../exit.js';
import { failureOf } from '../failures.js';
import { clientOptions } from '../gateway.js';
import { explained } from '../silence.js';
import { resolveName, tryConnections, tryTls } from './network.js';
import { Report, StepFailed, type Said } from './report.js';

type GivenDoctor = GivenFor<typeof description>;

/** More than this, and `expiresAt` and the log lines of both sides are hard to compare, ms. */
const CLOCKS_APART_MS = 2_000;

const UNAVAILABLE = 503;
const PARTLY_SERVED = 'The gateway serves, but not everything: see its log.';
const UNSERVED = 'The gateway is there and cannot reach its ZooKeeper, or is about to stop: see its log.';

export async function doctor(given: GivenDoctor): Promise<number> {
  const { values } = given;
  checkName('--lock', lockOf(given));
  const options: PosternOptions = {
    ...clientOptions(values, environment),
    ttlMs: values.ttl,
    label: `postern doctor at ${hostname()}`,
  };
  const report = new Report(given.output);
  const well: string[] = [];
  for (const url of options.urls) if (await isWell(report, url, options)) well.push(url);
  if (well.length > 0) await tryLock(report, given, { ...options, urls: well });
  return report.finish();
}

function lockOf({ values }: GivenDoctor): string {
  return values.lock ?? 'postern-doctor';
}

async function isWell(report: Report, url: string, options: PosternOptions): Promise<boolean> {
  const { hostname: bracketed, port: given, protocol } = new URL(url);
  const host = bracketed.replace(/^\[|\]$/g, '');
  const secure = protocol === 'https:';
  const port = Number(given || (secure ? 443 : 80));
  const { tls, patienceMs: timeoutMs = 0 } = options;
  const addresses = await report.step(`${url} name`, () => resolveName(host));
  if (addresses === undefined) return false;
  const open = await report.step(`${url} connection`, () => tryConnections(addresses, port, timeoutMs));
  const [address] = open ?? [];
  if (address === undefined) return false;
  if (secure && !(await report.step(`${url} TLS`, () => tryTls({ host, address, port, tls, timeoutMs })))) return false;
  await using postern = new Postern({ ...options, urls: [url], patienceMs: 0 });
  if (!(await report.step(`${url} gateway`, () => isGateway(postern)))) return false;
  return (await report.step(`${url} credential`, () => isKnown(postern, options))) === true;
}

async function isGateway(postern: Postern): Promise<{ said: Said; value: true }> {
  const sentAt = Date.now();
  try {
    const { status, headers, body } = await postern.request('GET /readyz');
    if (typeof body !== 'object') throw notOfGateway(status);
    const { reasons = [] } = body as Partial<typeof body>;
    const apartMs = Date.parse(headers['date'] ?? '') - sentAt;
    const apart = Math.abs(apartMs) > CLOCKS_APART_MS;
    if (!apart && reasons.length === 0) return { said: 'it is ready', value: true };
    const clock = `its clock is ${showDuration(Math.abs(apartMs))} ${apartMs > 0 ? 'ahead' : 'behind'}`;
    const warning = `it is ready${apart ? `, and ${clock}` : ''}${reasons.map((reason) => `; ${reason}`).join('')}`;
    const advice = reasons.length > 0 ? PARTLY_SERVED : 'Nothing here depends on it, but times are hard to compare.';
    return { said: { warning, advice }, value: true };
  } catch (error) {
    throw stepFailed(error, {
      [UNAVAILABLE]: UNSERVED,
      404: 'Something other than a gateway answers there, or the address has an extra path.',
    });
  }
}

async function isKnown(postern: Postern, options: PosternOptions): Promise<{ said: Said; value: true }> {
  const who =
    options.credential === undefined ? 'there is no credential' : 'the credential is accepted, or none is asked for';
  try {
    const { body } = await postern.request('GET /v1/status');
    const { minTtlMs, maxTtlMs } = body.sessionBounds ?? { minTtlMs: 0, maxTtlMs: 0 };
    const bounds = `TTLs from ${showDuration(minTtlMs)} to ${showDuration(maxTtlMs)}`;
    return { said: `${who}; the gateway has version ${body.version} and allows ${bounds}`, value: true };
  } catch (error) {
    // Known, and no more than that: what it may do shows with the lease and the lock.
    if (error instanceof PosternError && error.code === 'forbidden')
      return { said: `${who}; it may not read the status of the gateway`, value: true };
    throw stepFailed(error, {
      401: 'The key is missing or wrong: POSTERN_API_KEY, POSTERN_API_KEY_FILE or --api-key-file gives it.',
    });
  }
}

/** All that a job would need, and back. */
async function tryLock(report: Report, given: GivenDoctor, options: PosternOptions): Promise<void> {
  const name = lockOf(given);
  await using postern = new Postern(options);
  const timed = async (sentence: string, work: () => Promise<unknown>): Promise<{ said: Said; value: true }> => {
    const start = performance.now();
    try {
      await work();
    } catch (error) {
      throw stepFailed(await explained(error, given.values), {
        0: 'Nothing answers there any more, and just now a gateway did: has it been stopped?',
        [UNAVAILABLE]: UNSERVED,
        403: 'Whoever manages the keys has to add that scope.',
      });
    }
    return { said: `${sentence} in ${Math.round(performance.now() - start)} ms`, value: true };
  };
  const lease = true as const;
  const ttl = showDuration(options.ttlMs ?? 0);
  const steps: [string, string, () => Promise<unknown>][] = [
    ['lease', `granted for ${ttl}`, () => postern.request('GET /v1/leases/self', { lease })],
    ['heartbeat', 'answered', () => postern.request('POST /v1/leases/self/heartbeat', { lease })],
    ['lock', `"${name}" was taken and given back`, () => postern.lock(name).using({}, () => undefined)],
    ['end', 'the lease was ended', () => postern.request('DELETE /v1/leases/self', { lease })],
  ];
  for (const [step, sentence, work] of steps) if (!(await report.step(step, () => timed(sentence, work)))) return;
}

function stepFailed(error: unknown, advice: Readonly<Record<number, string>>): StepFailed {
  if (error instanceof StepFailed) return error;
  const { exitCode, message } = failureOf(error);
  const status = error instanceof PosternError ? error.status : 0;
  const known = Object.values(EXIT).find((code) => code === exitCode) ?? EXIT.unexpected;
  const served = known === EXIT.notAcquired && status === 0 ? UNAVAILABLE : status;
  return new StepFailed(known, message, advice[served]);
}
