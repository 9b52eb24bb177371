// A worker of which one leads: start it any number of times, and one of them writes the report.
//
//   node examples/leader.mjs
//
// When the leader stops, resigns or cannot reach a gateway, `signal` aborts before the next one is told that it leads.
// What is written carries the fencing token, so that a leader that was asleep cannot overwrite its successor's report.
import { setTimeout as sleep } from 'node:timers/promises';
import { Postern } from 'postern/client';

const me = `worker-${process.pid}`;
const postern = new Postern({ urls: [process.env.POSTERN_URL ?? 'http://127.0.0.1:7070'], label: me });
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stop.abort());

for await (const term of postern.election('reporter').terms({ value: me, signal: stop.signal })) {
  console.log(`${me} leads, fencing token ${term.fencingToken}`);
  const signal = AbortSignal.any([term.signal, stop.signal]);
  while (!signal.aborted) {
    await postern.config.put('reports/latest', { by: me, token: term.fencingToken }, { guard: term }).catch(report);
    await sleep(500, undefined, { signal }).catch(() => {});
  }
  console.log(`${me} leads no longer`);
}
await postern.close();

function report(error) {
  console.error(`${me}: ${error.message}`);
}
