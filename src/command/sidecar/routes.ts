/** What the program may ask, and others. */
import type { Hold } from '../../client/index.js';
import { isName, NAME_EXPECTED } from '../arguments/name.js';
import { unwell } from './locks.js';
import { Refusal } from './refusal.js';
import type { Answer, Asked, Handle } from './server.js';
import type { Sidecar } from './state.js';

const WAIT_MS_MAX = 300_000;
const LOCK = /^\/locks\/([^/]+)(?:\/(acquire|release))?$/;

/** For probes, and for what sends traffic to the leader. */
export function routesForAll(sidecar: Sidecar): Handle {
  return ({ method, path }) => {
    const answer = lookUp(sidecar, path);
    if (answer === undefined) throw new Refusal(404, 'not-found', `there is no ${path}; there are ${LOOKED_AT}`);
    allow(method, 'GET');
    return answer();
  };
}

export function routesForProgram(sidecar: Sidecar): Handle {
  return (asked) => {
    const { method, path } = asked;
    const answer = path === '/me' ? () => ({ status: 200, body: sidecar.describe() }) : lookUp(sidecar, path);
    if (answer !== undefined) {
      allow(method, 'GET');
      return answer();
    }
    const [, name, action] = LOCK.exec(path) ?? [];
    if (name === undefined)
      throw new Refusal(404, 'not-found', `there is no ${path}; there are ${LOOKED_AT}, /me and /locks/NAME`);
    if (!isName(name)) throw new Refusal(422, 'invalid', `the name is "${name}"; it must be ${NAME_EXPECTED}`);
    allow(method, action === undefined ? 'GET' : 'POST');
    if (action === 'acquire') return acquire(sidecar, name, asked);
    if (action === 'release') return release(sidecar, name, asked);
    const hold = sidecar.tenure?.locks.find(name);
    if (hold === undefined) throw new Refusal(404, 'not-found', `the lock "${name}" is not held here`);
    return { status: 200, body: shown(hold) };
  };
}

const LOOKED_AT = '/leader, /healthz, /readyz';

function lookUp(sidecar: Sidecar, path: string): (() => Answer) | undefined {
  switch (path) {
    case '/leader':
      return () => {
        const body = sidecar.leadership();
        return { status: body.leads ? 200 : 503, body };
      };
    case '/healthz':
      return () => ({ status: 200, body: { status: 'ok' } });
    case '/readyz':
      return () => {
        const reasons = sidecar.notReady();
        return { status: reasons.length === 0 ? 200 : 503, body: { ready: reasons.length === 0, reasons } };
      };
    default:
      return undefined;
  }
}

function allow(method: string, allowed: 'GET' | 'POST'): void {
  if (method !== allowed)
    throw new Refusal(405, 'method-not-allowed', `${method} is not possible here, only ${allowed}`, { allow: allowed });
}

async function acquire({ tenure, well }: Sidecar, name: string, { body, left }: Asked): Promise<Answer> {
  const { waitMs = 0, ...others } = body;
  refuseOthers(others, 'waitMs');
  if (!Number.isInteger(waitMs) || (waitMs as number) < 0 || (waitMs as number) > WAIT_MS_MAX)
    throw new Refusal(422, 'invalid', `waitMs must be a whole number from 0 to ${WAIT_MS_MAX}`, { field: 'waitMs' });
  if (tenure === undefined || !well) throw unwell(tenure?.over);
  return { status: 200, body: shown(await tenure.locks.acquire(name, waitMs as number, left)) };
}

async function release({ tenure }: Sidecar, name: string, { body }: Asked): Promise<Answer> {
  const { holdId, ...others } = body;
  refuseOthers(others, 'holdId');
  if (holdId !== undefined && typeof holdId !== 'string')
    throw new Refusal(422, 'invalid', 'holdId must be a text', { field: 'holdId' });
  if (tenure === undefined) throw unwell(undefined);
  await tenure.locks.release(name, holdId);
  return { status: 200, body: { name, released: true } };
}

function refuseOthers(others: Readonly<Record<string, unknown>>, known: string): void {
  const [field] = Object.keys(others);
  if (field !== undefined) throw new Refusal(422, 'invalid', `there is no "${field}" here, only ${known}`, { field });
}

function shown({ name, holdId, fencingToken, leftMs }: Hold): Readonly<Record<string, unknown>> {
  return { name, holdId, fencingToken, leftMs: Math.floor(leftMs) };
}
