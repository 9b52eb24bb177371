/**
 * Traffic of every kind, so that there is something to measure: clients that contend for locks, permits, leadership and
 * messages, heartbeat, write, vote, look, reserve, number themselves, and are refused; beside them a schedule and a
 * paused queue.
 */
const CLIENTS = 6;
const TTL_MS = 5_000;
const WAIT_MS = 3_000;
const HOLD_MS = 20;
const SHORT_TTL_MS = 1_000;
const RESERVED_MS = 1_000;
const SCHEDULE = '/v1/schedules/busy';
const POOL = '/v1/pools/busy';
/** A queue that is paused. */
const HALTED = '/v1/queues/halted';
/** Each second: no panel has to wait for the next minute. */
const EACH_SECOND = { cron: '* * * * * *', to: { queue: 'busy', body: 'scheduled' } };

/**
 * Runs `during` while clients are busy at `url`.
 * @template T @param {string} url @param {() => Promise<T>} during
 * @returns {Promise<{ answered: Record<string, number> }>} how many answers had which status; `cut` counts requests
 *   whose connection ended without an answer and that were repeated, as clients have to, `none` those that got none
 *   again
 */
export async function withLoad(url, during) {
  /** @type {Record<string, number>} */
  const answered = {};
  let over = false;
  const count = (/** @type {string} */ answer) => (answered[answer] = (answered[answer] ?? 0) + 1);
  /** @param {string} method @param {string} path @param {{ body?: unknown, leaseToken?: string }} [options] */
  const call = async (method, path, { body, leaseToken = '' } = {}) => {
    for (const failure of /** @type {const} */ (['cut', 'none'])) {
      try {
        const response = await fetch(url + path, {
          method,
          headers: { 'content-type': 'application/json', ...(leaseToken && { 'lease-token': leaseToken }) },
          body: body === undefined ? null : JSON.stringify(body),
        });
        const text = await response.text();
        count(String(response.status));
        return response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : undefined;
      } catch {
        count(failure);
      }
    }
    return undefined;
  };
  await call('PUT', SCHEDULE, { body: EACH_SECOND });
  await call('PUT', POOL, { body: { of: CLIENTS } });
  await call('PUT', HALTED, { body: { order: 'fifo' } });
  await call('POST', `${HALTED}/pause`);
  const clients = Array.from({ length: CLIENTS }, async (_, index) => {
    while (!over) await session(call, `client-${index}`);
  });
  try {
    await during();
  } finally {
    over = true;
    await Promise.all(clients);
    for (const path of [SCHEDULE, HALTED, POOL]) await call('DELETE', path);
  }
  return { answered };
}

/** One lease from its beginning to its end. */
async function session(call, label) {
  const lease = await call('POST', '/v1/leases', { body: { ttlMs: TTL_MS, label } });
  if (lease === undefined || lease.leaseToken === undefined) return pause();
  const { leaseToken } = lease;
  const used = (method, path, body) => call(method, path, { leaseToken, body });
  for (const [path, body] of /** @type {const} */ ([
    ['/v1/locks/busy', {}],
    ['/v1/rwlocks/busy', { mode: 'write' }],
    ['/v1/semaphores/busy', { limit: 2 }],
  ])) {
    const held = await used('POST', `${path}/acquire`, { ...body, waitMs: WAIT_MS });
    await used('POST', '/v1/leases/self/heartbeat', {});
    if (held?.held !== true) continue;
    await pause();
    await used('POST', `${path}/release`, {});
  }
  await used('POST', '/v1/locks/busy/acquire', {}); // now and then refused
  await used('POST', '/v1/elections/busy/campaign', { waitMs: WAIT_MS, value: label });
  await used('POST', '/v1/elections/busy/resign', {});
  await call('GET', '/v1/locks/busy');
  await call('POST', '/v1/queues/busy/messages', {
    body: { messages: [{ body: label }, { body: label }, { body: label }] },
  });
  const claimed = await used('POST', '/v1/queues/busy/claim', { max: 1 });
  const claimIds = (claimed?.items ?? []).map(({ claimId }) => claimId);
  if (claimIds.length > 0) await used('POST', '/v1/queues/busy/ack', { claimIds });
  await call('POST', '/v1/queues/busy/pop', { body: { waitMs: WAIT_MS } });
  await call('POST', `${HALTED}/pop`, { body: {} });
  await used('POST', `${POOL}/acquire`, {});
  await used('POST', `${POOL}/release`, {});
  await call('PUT', `/v1/config/load/${label}`, { body: { label } });
  await call('POST', '/v1/counters/load/add', { body: { by: 1 } });
  const begun = await call('POST', '/v1/transactions', { body: { participants: [label], deadlineMs: TTL_MS } });
  if (begun?.transactionId !== undefined)
    await used('POST', `/v1/transactions/${begun.transactionId}/vote`, { participant: label, vote: 'commit' });
  // Left to its end, or in the way of the next one.
  await call('POST', '/v1/locks/busy-reserved/reserve', { body: { forMs: RESERVED_MS, owner: label } });
  await used('DELETE', '/v1/leases/self');
  // One that falls silent: its lease expires.
  if (label === 'client-0') await call('POST', '/v1/leases', { body: { ttlMs: SHORT_TTL_MS } });
}

function pause() {
  return new Promise((done) => setTimeout(done, HOLD_MS));
}
