/** One of everything that the contract has, as well-behaved clients do it, alternating between two replicas. */
import { randomUUID } from 'node:crypto';
import type { Dispatcher } from 'undici';
import type { CallOptions, Client, LeaseHandle } from './http/client.js';
import { EventReader } from './http/event-stream.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- bodies as they come */

/** What somebody keeps in Postern, to be told from everything else. */
export interface Kept {
  message: string;
  value: string;
  data: string;
}

/** What the parts of the day share. */
interface Day {
  ask: (
    method: Dispatcher.HttpMethod,
    path: string,
    lease?: LeaseHandle,
    body?: unknown,
    options?: CallOptions,
  ) => Promise<any>;
  get: (path: string, lease?: LeaseHandle) => Promise<any>;
  watch: (path: string, lease?: LeaseHandle) => Promise<void>;
  kept: Kept;
  me: LeaseHandle;
  next: LeaseHandle;
}

/** @param headers of the event streams, which do not go through the clients */
export async function liveADay(
  clients: readonly [Client, Client],
  headers: Record<string, string>,
  kept: Kept,
): Promise<void> {
  const { ask, get, watch } = askers(clients, headers);
  const [me, next, third] = [
    await ask('POST', '/v1/leases', undefined, { label: 'me', requestId: randomUUID() }),
    await ask('POST', '/v1/leases', undefined, {}),
    await ask('POST', '/v1/leases', undefined, {}),
  ] as [LeaseHandle, LeaseHandle, LeaseHandle];
  const day = { ask, get, watch, kept, me, next };
  await useLeases(day);
  await useLines(day);
  await useMoreOfLines(day);
  await useReservation(day);
  await useProtocolsOfOthers(day);
  await useElection(day);
  await useBarriers(day);
  await useGroup(day);
  await usePool(day);
  await useRun(day);
  await useSchedule(day);
  await useConfiguration(day);
  await useTransaction(day);
  await useQueue(day);
  await useCounter(day);
  await useOperations(day);

  await ask('DELETE', `/v1/leases/${third.leaseId}`);
  await ask('DELETE', '/v1/leases/self', next);
  await ask('DELETE', '/v1/leases/self', me);
}

/** Ask the two replicas in turns. */
function askers(
  clients: readonly [Client, Client],
  headers: Record<string, string>,
): Pick<Day, 'ask' | 'get' | 'watch'> {
  let turn = 0;
  const ask = async (
    method: Dispatcher.HttpMethod,
    path: string,
    lease?: LeaseHandle,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<any> => {
    turn += 1;
    return (clients[turn % 2] as Client).expect([200, 201, 202, 204, 302], method, path, {
      ...options,
      ...(lease && { leaseToken: lease.leaseToken }),
      ...(body !== undefined && { body }),
    });
  };
  const get = (path: string, lease?: LeaseHandle): Promise<any> => ask('GET', path, lease);
  const watch = async (path: string, lease?: LeaseHandle): Promise<void> => {
    turn += 1;
    await using events = await EventReader.open((clients[turn % 2] as Client).url, path, {
      headers,
      ...(lease && { leaseToken: lease.leaseToken }),
    });
    await events.next();
  };
  return { ask, get, watch };
}

async function useLeases({ ask, get, watch, me, next }: Day): Promise<void> {
  await ask('POST', '/v1/leases/self/heartbeat', me);
  await ask('POST', '/v1/leases/heartbeat', undefined, { leaseTokens: [me.leaseToken, next.leaseToken] });
  await get('/v1/leases/self', me);
  await get('/v1/leases');
  await get(`/v1/leases/${me.leaseId}`);
  await watch('/v1/leases/self/events', me);
}

async function useLines({ ask, get, watch, me, next, kept }: Day): Promise<void> {
  const lines = [
    { path: '/v1/locks', acquire: {} },
    { path: '/v1/rwlocks', acquire: { mode: 'write' } },
    { path: '/v1/semaphores', acquire: { limit: 1 } },
  ];
  for (const { path, acquire } of lines) {
    const thing = `${path}/thing`;
    const { fencingToken } = await ask('POST', `${thing}/acquire`, me, { ...acquire, data: { kept: kept.data } });
    const waiting = ask('POST', `${thing}/acquire`, next, { ...acquire, waitMs: 20_000 });
    await watch(`${thing}/events`);
    await ask('POST', `${thing}/check`, undefined, { fencingToken });
    await ask('POST', `${thing}/revoke`, undefined, { reason: 'noon', graceMs: 60_000 });
    await get(thing);
    await get(`${thing}/waiters`);
    await get(`${thing}/nodes`);
    await get(path);
    await ask('POST', `${thing}/release`, me, {});
    await waiting;
    await ask('POST', `${thing}/release`, next, {});
  }
}

async function useMoreOfLines({ ask, me, kept }: Day): Promise<void> {
  await ask('PUT', '/v1/semaphores/thing', undefined, { limit: 3 });
  await ask('POST', '/v1/locks/acquire', me, { names: ['one', 'two'] });
  const oneCall = await ask('POST', '/v1/locks/one-call/acquire', undefined, {
    lease: {},
    requestId: 'r-00000000000000000000',
    data: kept.data,
  });
  await ask('DELETE', '/v1/leases/self', oneCall);
}

async function useReservation({ ask, get, kept }: Day): Promise<void> {
  const asked = { forMs: 60_000, owner: kept.data, reason: kept.value };
  const { reservationToken } = await ask('POST', '/v1/locks/reserved/reserve', undefined, asked);
  for (const path of ['/v1/reservations', '/v1/locks/reserved']) await get(path);
  await ask('POST', '/v1/locks/reserved/reservation/extend', undefined, { reservationToken, forMs: 120_000 });
  await ask('POST', '/v1/locks/reserved/reservation/release', undefined, { reservationToken });
  await ask('POST', '/v1/locks/reserved/reserve', undefined, asked);
  const { items } = await get('/v1/locks/reserved/nodes');
  const { node, version } = items[0];
  await ask('POST', '/v1/locks/reserved/break', undefined, { node, version, reason: 'noon' });
}

async function useProtocolsOfOthers({ ask, get, kept }: Day): Promise<void> {
  const machine = { client_params: { id: kept.data, group: 'thing' } };
  for (const path of ['/v1/pre-reboot', '/v1/steady-state'])
    await ask('POST', path, undefined, machine, { headers: { 'fleet-lock-protocol': 'true' } });
  const state = '/v1/terraform/thing';
  await ask('POST', `${state}/lock`, undefined, { ID: 'noon', Who: kept.data, Info: kept.value });
  await ask('POST', `${state}?ID=noon`, undefined, { kept: kept.value });
  await get(state);
  await ask('POST', `${state}/unlock`, undefined, { ID: 'noon' });
  await ask('DELETE', state);
}

async function useElection({ ask, get, watch, me, kept }: Day): Promise<void> {
  const election = '/v1/elections/thing';
  const elected = await ask('POST', `${election}/campaign`, me, { value: kept.value });
  await ask('POST', `${election}/proclaim`, me, { value: kept.value });
  await ask('POST', `${election}/acknowledge`, me, {});
  await ask('POST', `${election}/check`, undefined, { fencingToken: elected.fencingToken });
  await watch(`${election}/events`);
  for (const path of ['/v1/elections', election, `${election}/candidates`, `${election}/nodes`]) await get(path);
  await ask('POST', `${election}/transfer`, undefined, { candidateId: elected.candidateId, reason: 'noon' });
  await ask('POST', `${election}/revoke`, undefined, { reason: 'noon', graceMs: 60_000 });
  await ask('POST', `${election}/resign`, me, {});
}

async function useBarriers({ ask, get, watch, me, next }: Day): Promise<void> {
  await ask('PUT', '/v1/barriers/thing');
  await watch('/v1/barriers/thing/events');
  await get('/v1/barriers');
  await ask('DELETE', '/v1/barriers/thing');
  await get('/v1/barriers/thing');

  const double = '/v1/double-barriers/thing';
  await Promise.all([me, next].map((lease) => ask('POST', `${double}/enter`, lease, { size: 2, waitMs: 20_000 })));
  await watch(`${double}/events`);
  for (const path of ['/v1/double-barriers', double, `${double}/members`]) await get(path);
  await Promise.all([me, next].map((lease) => ask('POST', `${double}/leave`, lease, { waitMs: 20_000 })));
}

async function useGroup({ ask, get, watch, me, kept }: Day): Promise<void> {
  const group = '/v1/groups/thing';
  await ask('PUT', `${group}/members/m`, me, { value: kept.value });
  await watch(`${group}/events`);
  await ask('POST', `${group}/messages`, undefined, { body: kept.value });
  await watch(`${group}/messages/events`);
  for (const path of ['/v1/groups', group, `${group}/members`, `${group}/shares?of=4`, `${group}/messages?after=0`])
    await get(path);
  await ask('DELETE', `${group}/members/m`, me);
}

async function usePool({ ask, get, watch, me, next, kept }: Day): Promise<void> {
  const pool = '/v1/pools/thing';
  await ask('PUT', pool, undefined, { members: [{ id: 'only', data: { kept: kept.data } }] });
  await ask('POST', `${pool}/acquire`, me, { prefer: 'same', owner: 'me' });
  const waiting = ask('POST', `${pool}/acquire`, next, { waitMs: 20_000 });
  await watch(`${pool}/events`);
  for (const path of ['/v1/pools', pool]) await get(path);
  await ask('POST', `${pool}/release`, me, {});
  await waiting;
  await ask('POST', `${pool}/release`, next, {});
  await ask('DELETE', pool);
}

async function useRun({ ask, get, watch, me, kept }: Day): Promise<void> {
  const run = '/v1/runs/thing';
  const { fencingToken } = await ask('POST', `${run}/start`, me, { occurrence: 'noon' });
  await watch(`${run}/events`);
  for (const path of ['/v1/runs', run]) await get(path);
  await ask('POST', `${run}/finish`, me, { occurrence: 'noon', outcome: 'done', fencingToken, note: kept.data });
  await ask('POST', `${run}/forget`, undefined, { occurrence: 'noon' });
}

async function useSchedule({ ask, get, watch, kept }: Day): Promise<void> {
  const schedule = '/v1/schedules/thing';
  const to = { queue: 'thing', body: { kept: kept.message } };
  await ask('PUT', schedule, undefined, { cron: '0 3 * * *', timeZone: 'Europe/Berlin', to });
  await watch(`${schedule}/events`);
  for (const path of ['/v1/schedules', schedule]) await get(path);
  await ask('DELETE', schedule);
}

async function useConfiguration({ ask, get, watch, kept }: Day): Promise<void> {
  await ask('PUT', '/v1/config/app/key', undefined, kept.value, { headers: { 'content-type': 'text/plain' } });
  await ask('POST', '/v1/config', undefined, { operations: [{ put: 'app/other', value: { kept: kept.value } }] });
  await ask('POST', '/v1/config/read', undefined, { keys: ['app/key', 'app/other'] });
  for (const path of ['/v1/config/app/key', '/v1/config?prefix=app/']) await get(path);
  await watch('/v1/config/app/key');
  await ask('DELETE', '/v1/config/app/key');
}

async function useTransaction({ ask, get, watch, me, kept }: Day): Promise<void> {
  const { transactionId } = await ask('POST', '/v1/transactions', undefined, {
    participants: ['p'],
    deadlineMs: 60_000,
    data: kept.data,
  });
  const transaction = `/v1/transactions/${transactionId as string}`;
  await ask('POST', `${transaction}/join`, me, { participant: 'p' });
  await watch(`${transaction}/events`);
  await ask('POST', `${transaction}/vote`, me, { participant: 'p', vote: 'commit' });
  for (const path of ['/v1/transactions', transaction]) await get(path);
  await ask('POST', `${transaction}/abort`, undefined, { reason: 'too late' });
}

async function useQueue({ ask, get, watch, me, kept }: Day): Promise<void> {
  const queue = '/v1/queues/thing';
  await ask('PUT', queue, undefined, { order: 'fifo', deadLetterQueue: 'dead', maxDeliveries: 1 });
  await ask('POST', `${queue}/messages`, undefined, {
    messages: [1, 2, 3].map(() => ({ body: { kept: kept.message } })),
  });
  const raw = { headers: { 'content-type': 'text/plain' } };
  const { id } = await ask('POST', `${queue}/messages/raw`, undefined, kept.message, raw);
  await watch(`${queue}/events`);
  for (const method of ['GET', 'DELETE'] as const) await ask(method, `${queue}/messages/${id}`);
  for (const path of ['/v1/queues', queue, `${queue}/messages`]) await get(path);
  await ask('POST', `${queue}/pop`, undefined, {});
  const { items } = await ask('POST', `${queue}/claim`, me, { max: 2, claimMs: 30_000 });
  const [first, second] = (items as { claimId: string }[]).map(({ claimId }) => claimId);
  await ask('POST', '/v1/queues/claim', me, { queues: ['thing', 'dead'] });
  await ask('POST', `${queue}/extend`, me, { claimIds: [first], claimMs: 30_000 });
  await ask('POST', `${queue}/ack`, me, { claimIds: [first] });
  await ask('POST', `${queue}/nack`, me, { claimIds: [second], reason: 'later' });
  await ask('POST', '/v1/queues/dead/redrive', undefined, { to: 'thing' });
  for (const act of ['pause', 'resume', 'purge']) await ask('POST', `${queue}/${act}`);
  await ask('POST', `${queue}/restore`, undefined, { messages: [{ id: 'restored', body: { kept: kept.message } }] });
  await ask('DELETE', `${queue}?force=true`);
}

async function useCounter({ ask, get, watch }: Day): Promise<void> {
  await ask('POST', '/v1/counters/thing/add', undefined, { by: 2, requestId: 'once' });
  await ask('PUT', '/v1/counters/thing', undefined, { value: 7, expected: 2 });
  await watch('/v1/counters/thing/events');
  for (const path of ['/v1/counters', '/v1/counters/thing']) await get(path);
  await ask('DELETE', '/v1/counters/thing');
}

async function useOperations({ get, watch }: Day): Promise<void> {
  await watch('/v1/events?watch=lock:thing,config:app/*');
  for (const path of ['/console', '/console/app.js']) await get(path);
  for (const path of ['/v1/status', '/v1/contention', '/', '/healthz', '/readyz', '/metrics']) await get(path);
  for (const path of ['/openapi.yaml', '/openapi.json', '/problems/draining']) await get(path);
  for (const path of ['/docs', '/docs/locks', '/docs/docs.css', '/docs/docs.js']) await get(path);
}
