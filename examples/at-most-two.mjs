// Work that an API bears only so often at once, over all processes: a semaphore with two permits.
//
//   node examples/at-most-two.mjs 10
//
// Everybody who uses the semaphore gives the same limit. Permits are granted in order of arrival; those of a process
// that dies come back when its lease ends.
import { setTimeout as sleep } from 'node:timers/promises';
import { Postern } from 'postern/client';

const count = Number(process.argv[2] ?? 10);
const postern = new Postern({
  urls: [process.env.POSTERN_URL ?? 'http://127.0.0.1:7070'],
  label: `caller ${process.pid}`,
});
const api = postern.semaphore('slow-api', { limit: 2 });
await Promise.all(
  Array.from({ length: count }, (_, i) => api.using({ waitMs: 60_000 }, ({ signal }) => call(i, signal))),
);
await postern.close();

async function call(i, signal) {
  console.log(`begin ${process.pid}/${i} ${Date.now()}`);
  await sleep(50, undefined, { signal });
  console.log(`end ${process.pid}/${i} ${Date.now()}`);
}
