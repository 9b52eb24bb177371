/**
 * Takes a lease and a lock, checks the fencing token, and gives all of it back: says within seconds whether a
 * deployment works, through its balancer and down to ZooKeeper. `helm test` runs it from the image.
 *
 *   POSTERN_URL=http://postern:7070 [POSTERN_API_KEY=…] node scripts/try-lock.mjs [name]
 */
const ANSWERS_WITHIN_MS = 10_000;
const TTL_MS = 10_000;

const { env } = process;
const url = env['POSTERN_URL'] || 'http://127.0.0.1:7070';
const name = process.argv[2] ?? 'postern-try-lock';
const credential = env['POSTERN_API_KEY'] ? { authorization: `Bearer ${env['POSTERN_API_KEY']}` } : {};

/** @param {string} method @param {string} path @param {{ body?: unknown, leaseToken?: string }} [options] */
async function call(method, path, { body, leaseToken } = {}) {
  const response = await fetch(url + path, {
    method,
    headers: {
      ...credential,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(leaseToken === undefined ? {} : { 'lease-token': leaseToken }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    signal: AbortSignal.timeout(ANSWERS_WITHIN_MS),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

try {
  const { leaseId, leaseToken } = await call('POST', '/v1/leases', { body: { ttlMs: TTL_MS, label: 'try-lock' } });
  const lock = `/v1/locks/${encodeURIComponent(name)}`;
  try {
    const { fencingToken } = await call('POST', `${lock}/acquire`, { body: { waitMs: TTL_MS / 2 }, leaseToken });
    const { current } = await call('POST', `${lock}/check`, { body: { fencingToken } });
    if (!current) throw new Error(`the fencing token ${fencingToken} of the lock just taken is not the latest`);
    await call('POST', `${lock}/release`, { body: {}, leaseToken });
    const { holders } = await call('GET', lock);
    if (holders.some((holder) => holder.leaseId === leaseId)) throw new Error('the lock is held after its release');
    console.log(`lock ${name} taken with fencing token ${fencingToken}, and released, through ${url}`);
  } finally {
    await call('DELETE', '/v1/leases/self', { leaseToken });
  }
} catch (error) {
  const { message, cause } = /** @type {Error} */ (error);
  console.error(`${url}: ${cause instanceof Error ? cause.message : message}`);
  process.exitCode = 1;
}
